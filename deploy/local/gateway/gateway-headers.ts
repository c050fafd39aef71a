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
 * @param raw alternating names and values
 * @param drop names of additional headers to remove, in lower case
 */
export function selectForwardedHeaders(raw: readonly string[], drop: readonly string[] = []): string[] {
  const pairs = toPairs(raw);
  const connectionHeaders = pairs
    .filter(([name]) => name.toLowerCase() === "connection")
    .flatMap(([, value]) => value.toLowerCase().split(","))
    .map((name) => name.trim())
    .filter((name) => !FRAMING_HEADERS.includes(name));
  const droppedHeaders = new Set([...HOP_BY_HOP_HEADERS, ...drop, ...connectionHeaders]);
  return pairs.filter(([name]) => !droppedHeaders.has(name.toLowerCase())).flat();
}

function toPairs(raw: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) pairs.push([raw[index] ?? "", raw[index + 1] ?? ""]);
  return pairs;
}
