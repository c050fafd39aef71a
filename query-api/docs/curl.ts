import type { Operation } from "./openapi.ts";

/** Shell code for each curl command: the base URL, and the header with the caller's credentials. */
interface CurlContext {
  baseUrl: string;
  credentials: string;
}

/**
 * Adds a curl command to an operation. Shell variables such as `$TOKEN` stand for values that only the reader knows.
 * Renderers show this command instead of generating a command without variables.
 */
export function addCurl(operation: Operation, method: string, path: string, context: CurlContext): Operation {
  return {
    ...operation,
    "x-codeSamples": [{ lang: "Shell", label: "curl", source: formatCurl(operation, method, path, context) }],
  };
}

function formatCurl(
  { operationId, parameters, requestBody, security }: Operation,
  method: string,
  path: string,
  { baseUrl, credentials }: CurlContext,
): string {
  const url = baseUrl + path.replaceAll(/\{(\w+)\}/g, (_, name: string) => toVariable(name));
  const headers = parameters.filter(
    ({ name, in: location, required }) => location === "header" && (required || name === "Idempotency-Key"),
  );
  const example = requestBody?.content["application/json"]?.example;
  const isPublic = security.some((schemes) => Object.keys(schemes).length === 0);
  const command = [
    `curl -X ${method} "${url}"`,
    ...(isPublic ? [] : [`-H "${credentials}"`]),
    ...headers.map(({ name }) => `-H "${name}: ${toVariable(name)}"`),
    ...(example ? ['-H "Content-Type: application/json"', `-d @- <<JSON\n${formatBody(example as object)}\nJSON`] : []),
  ].join(" \\\n  ");
  const assignments = Object.entries({
    // The API refuses the key of an earlier command with another body.
    IDEMPOTENCY_KEY: `${operationId}-$(date +%s)`,
    SCHEDULED_AT: "$(jq -nr 'now + 86400 | todate')",
    // The API refuses times that are too long ago.
    SINCE: "$(jq -nr 'now - 86400 | todate')",
    REPLAY_SINCE: "$(jq -nr 'now - 86400 | todate')",
  }).filter(([name]) => command.includes(`$${name}`));
  return assignments.map(([name, value]) => `${name}=${value}\n`).join("") + command;
}

/** Formats a body for a here-document. Replaces ids, secrets, times and the URL with shell variables. */
function formatBody(example: object): string {
  const text = JSON.stringify(example, null, 2).replaceAll(/[\\$`]/g, "\\$&");
  return Object.entries(example)
    .filter(([name, value]) => value !== null && /(Ids?|_id|_secret|^scheduledAt|^since|^replaySince|^url)$/.test(name))
    .flatMap(([name, value]) => [value].flat().map((part) => [toVariable(toBodyName(name)), String(part)] as const))
    .reduce((body, [variable, value]) => body.replace(value, () => variable), text);
}

const toBodyName = (name: string) => (name === "url" ? "webhookUrl" : name.replace(/Ids$/, "Id"));

/** Names the variable of a parameter: `X-SERVICE-Clinic-ID` → `$CLINIC_ID`, `endpointId` → `$ENDPOINT_ID` */
function toVariable(name: string): string {
  const words = name.replace(/^X-[^-]+-/, "").replaceAll(/([a-z])([A-Z])/g, "$1_$2");
  return `$${words.replaceAll("-", "_").toUpperCase()}`;
}
