import { z } from "zod";
import { toDocUrl } from "../../shared/http/api-error.ts";
import { type Header, type JsonSchema, type Response, toSchemaRef } from "./openapi.ts";

/** Body of every response with status 400 or above. */
export const errorBody = z.strictObject({
  ok: z.literal(false),
  error: z.string().meta({ description: "Stable error code. Use it to handle the error in your program." }),
  correlationId: z.uuid().meta({ description: "Id of the request. Include it when you contact support." }),
  docUrl: z.string().meta({ description: "Path of the reference with the meaning of the code and what to do." }),
  details: z
    .array(
      z.strictObject({
        path: z.string().meta({ description: "Name of the invalid field or header." }),
        message: z.string().meta({ description: "Human-readable explanation. The wording may change." }),
      }),
    )
    .optional()
    .meta({ description: "Problems with an invalid request, one entry per problem." }),
});

const EXAMPLE_CORRELATION_ID = "0b8f64a5-2f6b-4c53-9d0e-3f1a5b7c9d21";

/** HTTP status of each error code, or several if the status depends on the request. */
export type StatusesByCode<Code extends string> = Readonly<Partial<Record<Code, number | readonly number[]>>>;

/**
 * Builds the error responses of an operation, one per HTTP status. Each response describes all error codes with that
 * status.
 *
 * @param statuses HTTP statuses of each error code
 * @param meanings description of each error code, for callers
 * @param getHeaders returns the headers of a response with the given status
 */
export function describeErrors<Code extends string>(
  statuses: StatusesByCode<Code>,
  meanings: Readonly<Record<Code, string>>,
  getHeaders: (status: number) => Response["headers"],
): Record<string, Response> {
  const codesByStatus = new Map<number, Code[]>();
  for (const [code, codeStatuses] of Object.entries(statuses) as [Code, number | readonly number[]][]) {
    for (const status of [codeStatuses].flat()) {
      codesByStatus.set(status, [...(codesByStatus.get(status) ?? []), code]);
    }
  }
  const responses = [...codesByStatus].map(([status, codes]) => {
    const description = codes.map((code) => `- \`${code}\`: ${meanings[code]}`).join("\n");
    const schema = { allOf: [{ $ref: toSchemaRef("Error") }, { properties: { error: { enum: codes } } }] };
    const [error = ""] = codes;
    const example = { ok: false, error, correlationId: EXAMPLE_CORRELATION_ID, docUrl: toDocUrl(error) };
    return [status, { description, headers: getHeaders(status), content: { "application/json": { schema, example } } }];
  });
  return Object.fromEntries(responses);
}

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
    "Maximum number of requests in the current window. All headers of rate limits describe the same limit.",
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
  "RateLimit-Policy": describeHeader(
    'The limit as in draft-ietf-httpapi-ratelimit-headers-10: its name, quota and window in seconds, for example `"installation";q=120;w=60`.',
    { type: "string" },
  ),
  RateLimit: describeHeader(
    'The same draft\'s state of the limit: requests left, and seconds until the window ends, for example `"installation";r=117;t=42`.',
    { type: "string" },
  ),
};

export const challengeHeader = {
  "WWW-Authenticate": {
    ...describeHeader(
      "Authentication scheme `Bearer`. If the request had a token, the parameter `error` contains an error code of RFC 6750. With `insufficient_scope`, the parameter `scope` contains the required scope. Other 403 responses do not have this header.",
      { type: "string" },
    ),
    required: false,
  },
};

export const sessionChallengeHeader = {
  "WWW-Authenticate": describeHeader("Authentication scheme `Cookie`.", { type: "string" }),
};

/** `WWW-Authenticate` of the token operation, present only if the client used HTTP Basic authentication. */
export const basicChallengeHeader = {
  "WWW-Authenticate": {
    ...describeHeader("Authentication scheme `Basic`, if the request had an Authorization header.", { type: "string" }),
    required: false,
  },
};

type HeaderName = keyof typeof commonHeaders | keyof typeof rateLimitHeaders | keyof typeof challengeHeader;

export function toHeaderRefs(...names: HeaderName[]): Response["headers"] {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

export const rateLimitRefs = toHeaderRefs(...(Object.keys(rateLimitHeaders) as (keyof typeof rateLimitHeaders)[]));

/** Returns the rate-limit headers, marked as optional, for requests that may fail before they are counted. */
export function describeOptionalRateLimitHeaders(): Response["headers"] {
  const headers = Object.entries(rateLimitHeaders);
  return Object.fromEntries(headers.map(([name, header]) => [name, { ...header, required: false }]));
}

function describeHeader(description: string, schema: JsonSchema): Header {
  return { description, required: true, schema };
}
