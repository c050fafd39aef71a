import type { JsonSchema, OpenApiDocument } from "./openapi.ts";

/**
 * Converts a document that describes the responses exactly to the one that the service publishes. The published
 * document permits additional members in responses, because a later release can add members. The published document
 * avoids keywords for fixed values that client generators do not support.
 *
 * @param isClosed returns true for a component that permits no additional members in any release
 */
export function toPublishedDocument(
  document: OpenApiDocument,
  isClosed: (name: string, schema: JsonSchema) => boolean,
): OpenApiDocument {
  const { schemas, ...otherComponents } = document.components;
  const publishedSchemas = Object.entries(schemas).map(([name, schema]) => [
    name,
    publishSchema(schema, isClosed(name, schema)),
  ]);
  return { ...document, components: { ...otherComponents, schemas: Object.fromEntries(publishedSchemas) } };
}

function publishSchema(schema: JsonSchema, isClosed: boolean): JsonSchema {
  return JSON.parse(JSON.stringify(schema), function (this: unknown, _key, part) {
    if (!isClosed && part?.additionalProperties === false) delete part.additionalProperties;
    if (typeof part?.const === "boolean" || typeof part?.const === "number") return describeFixedValue(part);
    // In a union, which is an array, generators understand null.
    return part?.type === "null" && !Array.isArray(this) ? { ...part, type: ["string", "null"] } : part;
  });
}

function describeFixedValue({ const: value, description, ...schema }: JsonSchema): JsonSchema {
  const text = `Always \`${value}\`.`;
  return {
    ...schema,
    type: typeof value === "boolean" ? "boolean" : "integer",
    description: description === undefined ? text : `${description} ${text}`,
    // Without an example, readers see the sample value of the type, such as `ok: true` in an error.
    examples: [value],
  };
}
