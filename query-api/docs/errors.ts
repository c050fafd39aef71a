import { z } from "zod";
import { schemaRef } from "./json-schema.ts";
import type { JsonSchema, Response } from "./openapi.ts";

/** Body of every response of status 400 and above. */
export const errorBody = z.strictObject({
  ok: z.literal(false),
  error: z.string().meta({ description: "Error code. Stable: react to this code, not to texts." }),
  correlationId: z.uuid().meta({ description: "Id of the request. Quote it when you ask for support." }),
  details: z
    .array(
      z.strictObject({
        path: z.string().meta({ description: "Field or header with the problem." }),
        message: z.string().meta({ description: "Explanation for people. It may change." }),
      }),
    )
    .optional()
    .meta({ description: "The problems of an invalid request, one entry per problem." }),
});

/** Errors that any request can get, independent of its operation. */
const generalErrors: readonly (readonly [status: number, code: string, meaning: string])[] = [
  [400, "malformed_request", "The request is not valid HTTP."],
  [404, "not_found", "The path does not exist."],
  [
    405,
    "method_not_allowed",
    "The path does not support this method. The header `Allow` lists the supported methods.",
  ],
  [
    408,
    "request_timeout",
    "The request took too long to arrive: more than 10 s for the headers or 20 s in total.",
  ],
  [410, "operation_retired", "The operation is no longer available."],
  [431, "headers_too_large", "The headers are larger than 32 KiB."],
];

/** Section of a document's introduction: the form of errors, and the errors that any request can get. */
export const errorsIntroduction = `### Errors

Every response of status 400 and above has the body \`{ok: false, error, correlationId}\`. \`error\` is a stable code.
Each operation lists its codes. In addition, any request can get one of these:

${generalErrors.map(([status, code, meaning]) => `- ${status} \`${code}\`: ${meaning}`).join("\n")}`;

/** Response headers by name, as references to the document's components. */
type HeaderRefs = Response["headers"];

/**
 * Builds the error responses of an operation: one per status, with its codes and their meanings.
 *
 * @param statuses status of each code
 * @param meanings meaning of each code for the caller
 * @param headersOf returns the headers of a response with the given status
 */
export function errorResponses<Code extends string>(
  statuses: Readonly<Partial<Record<Code, number>>>,
  meanings: Readonly<Record<Code, string>>,
  headersOf: (status: number) => HeaderRefs,
): Record<string, Response> {
  const byStatus = new Map<number, Code[]>();
  for (const [code, status] of Object.entries(statuses) as [Code, number][]) {
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const responses = [...byStatus].map(([status, codes]) => [
    status,
    {
      description: codes.map((code) => `- \`${code}\`: ${meanings[code]}`).join("\n"),
      headers: headersOf(status),
      content: { "application/json": { schema: errorSchema(codes) } },
    },
  ]);
  return Object.fromEntries(responses);
}

function errorSchema(codes: readonly string[]): JsonSchema {
  return { allOf: [{ $ref: schemaRef("Error") }, { properties: { error: { enum: codes } } }] };
}
