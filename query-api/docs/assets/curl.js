/** Creates the curl commands of operations. Variables such as `$TOKEN` take the place of what only the reader knows. */

/**
 * Formats the curl command of an operation.
 *
 * @param {object} openApi document of the operation
 * @param {{ method: string, path: string, operation: object }} entry
 */
export function formatCurl(openApi, { method, path, operation }) {
  const [server] = operation.servers ?? openApi.servers;
  const parameters = operation.parameters.filter(({ required }) => required);
  const query = parameters
    .filter(({ in: place }) => place === "query")
    .map(({ name }) => `${name}=${toVariable(name)}`);
  const url = server.url + path.replaceAll(/\{(\w+)\}/g, (_, name) => toVariable(name));
  const lines = [`curl -X ${method.toUpperCase()} "${url}${query.length > 0 ? `?${query.join("&")}` : ""}"`];
  for (const line of listHeaders(openApi, operation, parameters)) lines.push(`-H "${line}"`);
  const content = operation.requestBody?.content["application/json"];
  if (content) {
    lines.push('-H "Content-Type: application/json"');
    if (content.example) lines.push(`-d '${JSON.stringify(content.example, null, 2).replaceAll("'", "'\\''")}'`);
  }
  return lines.join(" \\\n  ");
}

function listHeaders(openApi, { security }, parameters) {
  const schemes = (security ?? openApi.security ?? []).flatMap((requirement) => Object.keys(requirement));
  const types = schemes.map((name) => openApi.components.securitySchemes[name]);
  const headers = parameters
    .filter(({ in: place }) => place === "header")
    .map(({ name }) => `${name}: ${toVariable(name)}`);
  if (types.some(({ type }) => type === "oauth2")) return ["Authorization: Bearer $TOKEN", ...headers];
  const cookie = types.find((scheme) => scheme.in === "cookie");
  return cookie ? [`Cookie: ${cookie.name}=$SESSION`, ...headers] : headers;
}

/** Names the variable of a parameter: `X-SERVICE-Clinic-ID` → `$CLINIC_ID`, `endpointId` → `$ENDPOINT_ID` */
function toVariable(name) {
  const words = name.replace(/^X-[^-]+-/, "").replaceAll(/([a-z])([A-Z])/g, "$1_$2");
  return `$${words.replaceAll("-", "_").toUpperCase()}`;
}
