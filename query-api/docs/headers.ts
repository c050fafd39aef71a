import type { Header, Response } from "./openapi.ts";

/** Response headers, named as in the document's components. */
export const commonHeaders = {
  "X-Correlation-ID": {
    description: "Id of the request. The service logs it too.",
    required: true,
    schema: { type: "string", format: "uuid" },
  },
  "Retry-After": {
    description: "Seconds to wait before the next try.",
    required: true,
    schema: { type: "integer", minimum: 1 },
  },
} as const satisfies Record<string, Header>;

export const rateLimitHeaders = {
  "RateLimit-Limit": {
    description:
      "Maximum number of requests in the current window. The three `RateLimit` headers describe the same limit.",
    required: true,
    schema: { type: "integer", minimum: 1 },
  },
  "RateLimit-Remaining": {
    description: "Requests left in the current window.",
    required: true,
    schema: { type: "integer", minimum: 0 },
  },
  "RateLimit-Reset": {
    description:
      "End of the current window. It is the same in all responses of one window. `Retry-After` describes the same moment.",
    required: true,
    schema: { type: "string", format: "date-time" },
  },
} as const satisfies Record<string, Header>;

export const challengeHeader = {
  "WWW-Authenticate": {
    description: "`Bearer`. If the request had a token, with the parameter `error`.",
    required: true,
    schema: { type: "string" },
  },
} as const satisfies Record<string, Header>;

type HeaderName = keyof typeof commonHeaders | keyof typeof rateLimitHeaders | keyof typeof challengeHeader;

/** Returns references to headers of the document's components. */
export function headerRefs(...names: HeaderName[]): Response["headers"] {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** References to the headers of a counted request. */
export const rateLimitRefs = headerRefs("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset");

/** Returns the rate-limit headers as optional: the request may have failed before it was counted. */
export function optionalRateLimitHeaders(): Response["headers"] {
  const headers = Object.entries(rateLimitHeaders);
  return Object.fromEntries(headers.map(([name, header]) => [name, { ...header, required: false }]));
}
