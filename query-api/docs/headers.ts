import type { Header, Response } from "./openapi.ts";

/** Headers of answers, by their names among a document's components. */
export const commonHeaders = {
  "X-Correlation-ID": {
    description: "Names the request, in every answer and in the service's logs.",
    required: true,
    schema: { type: "string", format: "uuid" },
  },
  "Retry-After": {
    description: "Seconds after which to try again.",
    required: true,
    schema: { type: "integer", minimum: 1 },
  },
} as const satisfies Record<string, Header>;

export const rateLimitHeaders = {
  "RateLimit-Limit": {
    description: "Requests allowed in one window. The three headers describe the same limit.",
    required: true,
    schema: { type: "integer", minimum: 1 },
  },
  "RateLimit-Remaining": {
    description: "Requests left in the window.",
    required: true,
    schema: { type: "integer", minimum: 0 },
  },
  "RateLimit-Reset": {
    description:
      "When the window ends; the same for all answers of one window. `Retry-After` names the same moment.",
    required: true,
    schema: { type: "string", format: "date-time" },
  },
} as const satisfies Record<string, Header>;

export const challengeHeader = {
  "WWW-Authenticate": {
    description: "`Bearer`, with `error` where a token was given.",
    required: true,
    schema: { type: "string" },
  },
} as const satisfies Record<string, Header>;

type HeaderName = keyof typeof commonHeaders | keyof typeof rateLimitHeaders | keyof typeof challengeHeader;

/** References to headers that stand once among the document's components. */
export function headerRefs(...names: HeaderName[]): Response["headers"] {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** References to the headers of a request that was counted. */
export const rateLimitRefs = headerRefs("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset");

/** The rate limit in an answer to a request that may have failed before it was counted. */
export function optionalRateLimitHeaders(): Response["headers"] {
  const headers = Object.entries(rateLimitHeaders);
  return Object.fromEntries(headers.map(([name, header]) => [name, { ...header, required: false }]));
}
