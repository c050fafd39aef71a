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
  "RateLimit-Remaining": {
    description: "Requests left until `RateLimit-Reset`.",
    required: true,
    schema: { type: "integer", minimum: 0 },
  },
  "RateLimit-Reset": {
    description: "When the count starts anew.",
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

/** The rate limit in an answer to a request that may have failed before it was counted. */
export function rateLimitOfFailure(): Response["headers"] {
  const headers = Object.entries(rateLimitHeaders);
  return Object.fromEntries(headers.map(([name, header]) => [name, { ...header, required: false }]));
}
