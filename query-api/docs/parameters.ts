import type { Parameters } from "../http/parameters.ts";
import { toJsonSchema } from "./json-schema.ts";
import type { Parameter } from "./openapi.ts";

/** Query parameters as their declarations say them. None is required: reading falls back. */
export function queryParameters(declared: Parameters): Parameter[] {
  return Object.entries(declared).map(([name, { description, schema }]) => ({
    name,
    in: "query",
    required: false,
    description,
    schema: toJsonSchema(schema, "input"),
  }));
}

/** The header parameter of a UUID. */
export function uuidHeader(name: string, required: boolean, description: string): Parameter {
  return { name, in: "header", required, description, schema: { type: "string", format: "uuid" } };
}
