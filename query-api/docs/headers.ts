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
    description:
      "Requests left in the current minute. Absent where a request was refused before it was counted.",
    required: false,
    schema: { type: "integer", minimum: 0 },
  },
  "RateLimit-Reset": {
    description: "When the current minute ends. Absent where a request was refused before it was counted.",
    required: false,
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

export function headerRefs(...names: HeaderName[]): Response["headers"] {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
