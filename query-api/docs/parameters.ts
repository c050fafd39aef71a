import type { QueryParameters } from "../http/parameters.ts";
import { toJsonSchema } from "./json-schema.ts";
import type { JsonSchema, Parameter } from "./openapi.ts";

/** Describes query parameters. All are optional, because each parameter has a default. */
export function describeQueryParameters(declarations: QueryParameters = {}): Parameter[] {
  return Object.entries(declarations).map(([name, { description, schema }]) => ({
    name,
    in: "query",
    required: false,
    description,
    schema: toJsonSchema(schema, "input"),
  }));
}

export function describeHeaderParameter(
  name: string,
  description: string,
  schema: JsonSchema = { type: "string" },
  required = true,
): Parameter {
  return { name, in: "header", required, description, schema };
}
