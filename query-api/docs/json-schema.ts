import { z } from "zod";
import type { Content, JsonSchema } from "./openapi.ts";

/**
 * Converts a zod schema to JSON Schema.
 *
 * @param io `input` for requests, `output` for responses; the two differ if the schema transforms values
 */
export function toJsonSchema(schema: z.ZodType, io: "input" | "output"): JsonSchema {
  const { $schema: _, ...jsonSchema } = z.toJSONSchema(schema, { io, override: omitRedundantKeywords });
  return jsonSchema;
}

/** Converts named zod schemas to JSON Schemas that refer to each other by name. */
export function toComponents(
  schemas: Readonly<Record<string, z.ZodType>>,
  io: "input" | "output",
): Record<string, JsonSchema> {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(schemas)) registry.add(schema, { id });
  const jsonSchemas = z.toJSONSchema(registry, { io, uri: toSchemaRef, override: omitRedundantKeywords });
  return Object.fromEntries(
    Object.entries(jsonSchemas.schemas).map(([id, { $schema: _, $id: __, ...schema }]) => [id, schema]),
  );
}

/** Returns the reference to a named schema in the document's components. */
export function toSchemaRef(name: string): string {
  return `#/components/schemas/${name}`;
}

/**
 * Returns JSON content whose schema is in the document's components.
 *
 * @param example example of the body, if one is recorded
 */
export function toContent(schemaName: string, example?: unknown): Content {
  return {
    "application/json": { schema: { $ref: toSchemaRef(schemaName) }, ...(example !== undefined && { example }) },
  };
}

/** Returns the name of the schema of an operation's response. */
export function toResponseName(operationId: string): string {
  return `${capitalize(operationId)}Response`;
}

/** Returns the name of the schema of an operation's request body. */
export function toRequestName(operationId: string): string {
  return `${capitalize(operationId)}Request`;
}

/** Returns the name of the schema of an operation's form. */
export function toFormName(operationId: string): string {
  return `${capitalize(operationId)}Form`;
}

function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Removes keywords that do not help readers: the pattern of a known format, and the limits of safe integers. */
function omitRedundantKeywords({ jsonSchema }: { jsonSchema: JsonSchema }): void {
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
}
