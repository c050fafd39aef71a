import type { Header, JsonSchema, Response } from "./openapi.ts";

/** Response headers that both OpenAPI documents use. The keys are the header names. */
export const commonHeaders = {
  "X-Correlation-ID": describeHeader("Id of the request. The service's log contains the same id.", {
    type: "string",
    format: "uuid",
  }),
  "Retry-After": describeHeader("Seconds to wait before you retry the request.", { type: "integer", minimum: 1 }),
};

export const rateLimitHeaders = {
  "RateLimit-Limit": describeHeader(
    "Maximum number of requests in the current window. All three `RateLimit` headers describe the same limit.",
    { type: "integer", minimum: 1 },
  ),
  "RateLimit-Remaining": describeHeader("Number of requests left in the current window.", {
    type: "integer",
    minimum: 0,
  }),
  "RateLimit-Reset": describeHeader(
    "End of the current window. All responses within a window have the same value. In a 429 response, `Retry-After` is the number of seconds until this time.",
    { type: "string", format: "date-time" },
  ),
};

export const challengeHeader = {
  "WWW-Authenticate": describeHeader(
    "Authentication scheme `Bearer`. If the request had a token, the parameter `error` contains an error code of RFC 6750.",
    { type: "string" },
  ),
};

/** Challenge of the token operation, which a response has only if the client used HTTP Basic authentication. */
export const basicChallengeHeader = {
  "WWW-Authenticate": {
    ...describeHeader("Authentication scheme `Basic`, if the request had an Authorization header.", { type: "string" }),
    required: false,
  },
};

type HeaderName = keyof typeof commonHeaders | keyof typeof rateLimitHeaders | keyof typeof challengeHeader;

/** Returns references to the named headers in the document's components. */
export function toHeaderRefs(...names: HeaderName[]): Response["headers"] {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** References to the rate-limit headers. Every response to a counted request has these headers. */
export const rateLimitRefs = toHeaderRefs("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset");

/** Returns the rate-limit headers, marked as optional, for requests that may fail before they are counted. */
export function describeOptionalRateLimitHeaders(): Response["headers"] {
  const headers = Object.entries(rateLimitHeaders);
  return Object.fromEntries(headers.map(([name, header]) => [name, { ...header, required: false }]));
}

function describeHeader(description: string, schema: JsonSchema): Header {
  return { description, required: true, schema };
}
