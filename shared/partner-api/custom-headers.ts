import { z } from "zod";

/** Names of headers that HTTP, the HTTP client or the service sets. In lower case. */
const RESERVED_NAMES = new Set([
  // Message framing and hop-by-hop headers (RFC 9110, RFC 9112)
  ...["connection", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"],
  // Set by the sender
  ...["accept-encoding", "date", "user-agent", "traceparent", "tracestate", "baggage"],
  // Set by proxies. Receivers may trust them.
  ...["forwarded", "via", "x-real-ip"],
]);

/** Matches families of header names that are reserved in the same way. */
const RESERVED_PREFIX = /^(content|proxy|webhook|x-forwarded)-/;

/** Matches the branded headers of deliveries, such as `X-SERVICE-Signature`. The brand is a setting. */
const BRANDED_NAME = /^x-.+-(signature|timestamp|delivery-id)$/;

/**
 * Returns true if the service does not let partners set the header.
 *
 * @param name name in any case
 */
function isReserved(name: string): boolean {
  const lowerCaseName = name.toLowerCase();
  return RESERVED_NAMES.has(lowerCaseName) || RESERVED_PREFIX.test(lowerCaseName) || BRANDED_NAME.test(lowerCaseName);
}

/** Schema of the name of a custom header. */
export const customHeaderName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/, "must be a header name with at most 64 characters")
  .refine((name) => !isReserved(name), "is reserved for the service");

/** Schema of the value of a custom header. Messages never contain the value, because it is a secret. */
export const customHeaderValue = z
  .string()
  .regex(
    /^[\x21-\x7e]([\x20-\x7e]{0,1022}[\x21-\x7e])?$/,
    "must be 1 to 1024 printable ASCII characters without outer spaces",
  );
