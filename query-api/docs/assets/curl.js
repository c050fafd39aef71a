/**
 * Creates the curl commands of operations. Variables such as `$TOKEN` take the place of what only the reader knows. The
 * Quickstart sets most of them.
 */

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
  const isOfQuickstart = openApi.info.description.includes(`API=${server.url}\n`);
  const baseUrl = isOfQuickstart ? "$API" : new URL(server.url, location.href).href.replace(/\/$/, "");
  const url = baseUrl + path.replaceAll(/\{(\w+)\}/g, (_, name) => toVariable(name));
  const lines = [`curl -X ${method.toUpperCase()} "${url}${query.length > 0 ? `?${query.join("&")}` : ""}"`];
  for (const line of listHeaders(openApi, operation, parameters)) lines.push(`-H "${line}"`);
  const content = operation.requestBody?.content["application/json"];
  if (content) lines.push('-H "Content-Type: application/json"');
  if (content?.example) lines.push(`-d @- <<JSON\n${formatBody(content.example)}\nJSON`);
  const command = lines.join(" \\\n  ");
  const assignments = Object.entries({
    // The API refuses the key of an earlier command with another body.
    IDEMPOTENCY_KEY: `${operation.operationId}-$(date +%s)`,
    SCHEDULED_AT: "$(jq -nr 'now + 86400 | todate')",
  }).filter(([name]) => command.includes(`$${name}`));
  return assignments.map(([name, value]) => `${name}=${value}\n`).join("") + command;
}

/** Formats a body for a here-document, in which the shell replaces the variables of ids, secrets and future times. */
function formatBody(example) {
  let text = JSON.stringify(example, null, 2).replaceAll(/[\\$`]/g, "\\$&");
  for (const [name, value] of Object.entries(example)) {
    if (value === null || !/(Ids?|_id|_secret|^scheduledAt)$/.test(name)) continue;
    for (const id of [value].flat()) text = text.replace(id, () => toVariable(name.replace(/Ids$/, "Id")));
  }
  return text;
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
