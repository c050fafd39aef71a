import { z } from "zod";
import type { JsonSchema } from "./openapi.ts";

/** Selects the type that a schema with transformations describes: `input` for requests, `output` for responses. */
type Side = "input" | "output";

/** Converts a zod schema to JSON Schema. */
export function toJsonSchema(schema: z.ZodType, io: Side): JsonSchema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, override: omitRedundantKeywords });
  return rest;
}

/** Converts named zod schemas to JSON Schemas that refer to each other by name. */
export function toComponents(
  schemas: Readonly<Record<string, z.ZodType>>,
  io: Side,
): Record<string, JsonSchema> {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(schemas)) registry.add(schema, { id });
  const made = z.toJSONSchema(registry, { io, uri: toSchemaRef, override: omitRedundantKeywords });
  return Object.fromEntries(
    Object.entries(made.schemas).map(([id, { $schema: _, $id: __, ...schema }]) => [id, schema]),
  );
}

/** Returns the reference to a named schema in the document's components. */
export function toSchemaRef(name: string): string {
  return `#/components/schemas/${name}`;
}

/** Removes keywords that do not help readers: the pattern of a known format, and the limits of safe integers. */
function omitRedundantKeywords({ jsonSchema }: { jsonSchema: JsonSchema }): void {
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
}
