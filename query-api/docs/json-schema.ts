import { z } from "zod";
import type { JsonSchema } from "./openapi.ts";

/** Which side of a transformation a schema tells of: what is sent to us, or what we send. */
type Side = "input" | "output";

/** Says in a document's words what zod's own schema of a value says. */
export function toJsonSchema(schema: z.ZodType, io: Side): JsonSchema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, override: omitNoise });
  return rest;
}

/** Named schemas, of which those that hold others refer to them by name. */
export function toComponents(
  schemas: Readonly<Record<string, z.ZodType>>,
  io: Side,
): Record<string, JsonSchema> {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(schemas)) registry.add(schema, { id });
  const made = z.toJSONSchema(registry, { io, uri: schemaRef, override: omitNoise });
  return Object.fromEntries(
    Object.entries(made.schemas).map(([id, { $schema: _, $id: __, ...schema }]) => [id, schema]),
  );
}

/** A reference to a schema that stands once among the document's components. */
export function schemaRef(name: string): string {
  return `#/components/schemas/${name}`;
}

/** Leaves out what a reader has no use for: the pattern behind a format, the bounds of a safe integer. */
function omitNoise({ jsonSchema }: { jsonSchema: JsonSchema }): void {
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
}
