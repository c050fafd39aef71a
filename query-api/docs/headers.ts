import type { Header, Response } from "./openapi.ts";

/** Response headers that both documents use. The keys are the header names. */
export const commonHeaders = {
  "X-Correlation-ID": {
    description: "Id of the request. The service's log contains the same id.",
    required: true,
    schema: { type: "string", format: "uuid" },
  },
  "Retry-After": {
    description: "Seconds to wait before you retry the request.",
    required: true,
    schema: { type: "integer", minimum: 1 },
  },
} as const satisfies Record<string, Header>;

export const rateLimitHeaders = {
  "RateLimit-Limit": {
    description:
      "Maximum number of requests in the current window. All three `RateLimit` headers describe the same limit.",
    required: true,
    schema: { type: "integer", minimum: 1 },
  },
  "RateLimit-Remaining": {
    description: "Number of requests left in the current window.",
    required: true,
    schema: { type: "integer", minimum: 0 },
  },
  "RateLimit-Reset": {
    description:
      "End of the current window. All responses of one window have the same value. In a 429, `Retry-After` is the number of seconds until this time.",
    required: true,
    schema: { type: "string", format: "date-time" },
  },
} as const satisfies Record<string, Header>;

export const challengeHeader = {
  "WWW-Authenticate": {
    description:
      "Authentication scheme `Bearer`. If the request had a token, the parameter `error` contains a code of RFC 6750.",
    required: true,
    schema: { type: "string" },
  },
} as const satisfies Record<string, Header>;

type HeaderName = keyof typeof commonHeaders | keyof typeof rateLimitHeaders | keyof typeof challengeHeader;

/** Returns references to the named headers in the document's components. */
export function toHeaderRefs(...names: HeaderName[]): Response["headers"] {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** References to the rate-limit headers, which all responses to counted requests have. */
export const rateLimitRefs = toHeaderRefs("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset");

/** Returns the rate-limit headers as optional, for requests that may fail before they are counted. */
export function optionalRateLimitHeaders(): Response["headers"] {
  const headers = Object.entries(rateLimitHeaders);
  return Object.fromEntries(headers.map(([name, header]) => [name, { ...header, required: false }]));
}
