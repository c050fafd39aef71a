import type { JsonSchema, OpenApiDocument, Operation } from "../../../query-api/docs/openapi.ts";

/**
 * Lists parts of a document that a common client generator handles wrongly, and responses that a later release could
 * not extend.
 *
 * @param closedSchemas matches the names of schemas that may never have additional members
 */
export function findGeneratorFaults(document: OpenApiDocument, closedSchemas: RegExp): string[] {
  const { info, paths, webhooks = {}, components } = document;
  const operations = Object.values(paths).flatMap((item) => Object.values(item));
  const events = Object.values(webhooks).flatMap((item) => Object.values(item));
  return [
    ...("license" in info ? ["openapi-generator refuses a licence without an identifier"] : []),
    ...findSharedTags(operations, events),
    ...[...operations, ...events].flatMap(findAlternatives),
    ...operations.flatMap(findFormattedHeaders),
    ...Object.entries(components.schemas).flatMap(([name, schema]) => [
      ...(/(Response|Params|Body)$/.test(name) ? [`The name of the schema ${name} is one that generators derive`] : []),
      ...findSchemaFaults(name, schema, closedSchemas.test(name)),
    ]),
    ...[...Object.entries(paths), ...Object.entries(webhooks)].flatMap(([path, item]) =>
      findSchemaFaults(path, item as JsonSchema, false),
    ),
  ];
}

/**
 * Finds tags of both operations and webhooks. openapi-generator writes one file per tag, so webhooks overwrite
 * operations.
 */
function findSharedTags(operations: Operation[], events: Operation[]): string[] {
  const tags = new Set(operations.flatMap((operation) => operation.tags));
  const sharedTags = events.flatMap((event) => event.tags).filter((tag) => tags.has(tag));
  return [...new Set(sharedTags)].map((tag) => `The tag ${tag} is on operations and webhooks`);
}

/**
 * Finds requests with several media types. Generators support only the first, or import a model that they do not
 * generate.
 */
function findAlternatives({ operationId, requestBody }: Operation): string[] {
  const types = Object.keys(requestBody?.content ?? {});
  return types.length > 1 ? [`The request of ${operationId} has ${types.length} media types`] : [];
}

/**
 * Finds headers with a format. openapi-python-client converts such values to objects, which it cannot send in a header.
 */
function findFormattedHeaders({ operationId, parameters }: Operation): string[] {
  const headers = parameters.filter((parameter) => parameter.in === "header" && parameter.schema.format !== undefined);
  return headers.map(({ name }) => `The header ${name} of ${operationId} has a format`);
}

/** Finds faults in a schema and in its nested schemas. */
function findSchemaFaults(location: string, part: unknown, isClosed: boolean): string[] {
  if (typeof part !== "object" || part === null) return [];
  const { type, const: fixedValue, additionalProperties } = part as JsonSchema;
  const members = Object.entries(part).filter(([name]) => name !== "example");
  return [
    ...(["boolean", "number"].includes(typeof fixedValue) ? [`${location} is a fixed ${typeof fixedValue}`] : []),
    ...(type === "null" ? [`${location} has the type null`] : []),
    ...(additionalProperties === false && !isClosed ? [`${location} permits no additional members`] : []),
    ...members.flatMap(([name, member]) =>
      // In a union, generators understand the type null.
      name === "anyOf"
        ? findSchemaFaults(
            `${location}.anyOf`,
            (member as JsonSchema[]).filter((option) => option.type !== "null"),
            isClosed,
          )
        : findSchemaFaults(`${location}.${name}`, member, isClosed),
    ),
  ];
}
