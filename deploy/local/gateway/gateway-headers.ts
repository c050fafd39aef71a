/**
 * Hop-by-hop headers (RFC 9110, section 7.6.1). The header `Expect` is included, because the gateway handles it itself.
 */
const HOP_BY_HOP_HEADERS = [
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "expect",
];

/**
 * Headers that are forwarded even if the header `Connection` names them. Without these headers, a service could mistake
 * a body for a new request.
 */
const FRAMING_HEADERS = ["content-length", "host"];

/**
 * Returns the headers to forward. Preserves their case, order and repetitions.
 *
 * @param rawHeaders alternating names and values
 * @param droppedNames names of additional headers to remove, in lower case
 */
export function selectForwardedHeaders(rawHeaders: readonly string[], droppedNames: readonly string[] = []): string[] {
  const pairs = toPairs(rawHeaders);
  const connectionHeaders = pairs
    .filter(([name]) => name.toLowerCase() === "connection")
    .flatMap(([, value]) => value.toLowerCase().split(","))
    .map((name) => name.trim())
    .filter((name) => !FRAMING_HEADERS.includes(name));
  const droppedHeaders = new Set([...HOP_BY_HOP_HEADERS, ...droppedNames, ...connectionHeaders]);
  return pairs.filter(([name]) => !droppedHeaders.has(name.toLowerCase())).flat();
}

function toPairs(rawHeaders: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2)
    pairs.push([rawHeaders[index] ?? "", rawHeaders[index + 1] ?? ""]);
  return pairs;
}
