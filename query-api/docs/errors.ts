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
