import type { QueryParameters } from "../http/parameters.ts";
import { toJsonSchema } from "./json-schema.ts";
import type { Parameter } from "./openapi.ts";

/** Describes query parameters. All are optional, because each parameter has a default. */
export function describeQueryParameters(declared: QueryParameters): Parameter[] {
  return Object.entries(declared).map(([name, { description, schema }]) => ({
    name,
    in: "query",
    required: false,
    description,
    schema: toJsonSchema(schema, "input"),
  }));
}

/** Describes a header parameter that contains a UUID. */
export function uuidHeader(name: string, required: boolean, description: string): Parameter {
  return { name, in: "header", required, description, schema: { type: "string", format: "uuid" } };
}
