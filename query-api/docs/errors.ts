import { z } from "zod";
import { schemaRef } from "./json-schema.ts";
import type { JsonSchema, Response } from "./openapi.ts";

/** Every answer of status 400 and above. */
export const errorBody = z.strictObject({
  ok: z.literal(false),
  error: z.string().meta({ description: "A stable code." }),
  correlationId: z.uuid().meta({ description: "To quote when asking for support." }),
  details: z
    .array(z.strictObject({ path: z.string(), message: z.string() }))
    .optional()
    .meta({ description: "What is wrong with the request, thing by thing." }),
});

/** What no operation is needed for: any request may be answered this. */
const generalErrors: readonly (readonly [status: number, code: string, meaning: string])[] = [
  [400, "malformed_request", "The request is not HTTP as it should be."],
  [404, "not_found", "There is nothing at this path."],
  [405, "method_not_allowed", "The path does not have this method; `Allow` names those that it has."],
  [408, "request_timeout", "The request did not arrive in time."],
  [410, "operation_retired", "The operation was taken out of service."],
  [431, "headers_too_large", "The headers are larger than 32 KiB."],
];

/** The errors that stand with no operation, and how every error looks, for a document's introduction. */
export const errorsIntroduction = `### Errors

Every answer of status 400 and above is \`{ok: false, error, correlationId}\`; \`error\` is a stable code. Each operation
lists its own. Any request may also be answered:

${generalErrors.map(([status, code, meaning]) => `- ${status} \`${code}\`: ${meaning}`).join("\n")}`;

/** A header that answers carry, by its name among the document's components. */
type HeaderRefs = Response["headers"];

/**
 * The error answers of an operation: one for each status, with its codes and what they mean.
 *
 * @param statuses the status of each code
 * @param meanings what each code means to the caller
 * @param headersOf what an answer of a status carries
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
