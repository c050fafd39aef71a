/** The parts of OpenAPI 3.1 that the documents use, and conversions of schemas, parameters and recorded examples. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import type { QueryParameters } from "../http/parameters.ts";

export type JsonSchema = Record<string, unknown>;

export interface OpenApiDocument {
  openapi: "3.1.0";
  info: {
    title: string;
    version: string;
    summary: string;
    description: string;
    contact: { name: string };
  };
  servers: Server[];
  tags: { name: string; description: string }[];
  paths: Record<string, PathItem>;
  webhooks?: Record<string, PathItem>;
  components: {
    schemas: Record<string, JsonSchema>;
    headers: Record<string, Header>;
    securitySchemes: Record<string, Record<string, unknown>>;
  };
}

export interface Server {
  url: string;
  description: string;
}

export type PathItem = Partial<Record<"get" | "post" | "patch" | "delete", Operation>>;

export interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  /**
   * Alternative security schemes with the required scopes. If the list or one of its members is empty, no
   * authentication is required.
   */
  security: Record<string, string[]>[];
  /** Servers of the operation; undefined if the operation uses all servers of the document. */
  servers?: Server[];
  parameters: Parameter[];
  requestBody?: { required: boolean; content: Content };
  responses: Record<string, Response>;
  /** If true, the reference omits the operation. */
  "x-scalar-ignore"?: boolean;
  "x-codeSamples"?: { lang: string; label: string; source: string }[];
}

export interface Parameter {
  name: string;
  in: "query" | "header" | "path";
  required: boolean;
  description: string;
  schema: JsonSchema;
}

interface MediaType {
  schema: JsonSchema;
  example?: unknown;
}

export type Content = Readonly<Record<string, MediaType>>;

export interface Header {
  description: string;
  required: boolean;
  schema: JsonSchema;
}

export interface Response {
  description: string;
  headers: Record<string, Header | { $ref: string }>;
  content?: Content;
}

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

export function toSchemaRef(name: string): string {
  return `#/components/schemas/${name}`;
}

/**
 * Returns content whose schema is in the document's components. The content has one media type, because most client
 * generators do not support alternatives.
 *
 * @param example example of the body, if one is recorded
 */
export function toContent(schemaName: string, example?: unknown, mediaType = "application/json"): Content {
  return { [mediaType]: { schema: { $ref: toSchemaRef(schemaName) }, ...(example !== undefined && { example }) } };
}

/**
 * Returns the schema name for a part of an operation. Avoids the suffixes `Response`, `Params` and `Body`, because
 * client generators derive their own names with them.
 */
export function toSchemaName(operationId: string, part: "Request" | "Result"): string {
  return `${capitalize(operationId)}${part}`;
}

/** Returns true for the name of a request's schema. These schemas permit no additional members. */
export function isRequestSchema(name: string): boolean {
  return name.endsWith("Request");
}

export function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Removes keywords that do not help readers: the pattern of a known format, and the limits of safe integers. */
function omitRedundantKeywords({ jsonSchema }: { jsonSchema: JsonSchema }): void {
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
}

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

/** Recorded examples: operations by operation id, and webhook bodies by event type. */
export interface Recording {
  operations: Record<string, { request?: unknown; status: number; response: unknown }>;
  events: Record<string, unknown>;
}

/**
 * Reads the examples of an API, which tests record from real responses. An operation or event type that is not
 * recorded yet has no example.
 */
export function readExamples(api: "partner" | "portal"): Recording {
  const file = path.join(import.meta.dirname, "assets", `${api}-examples.json`);
  return JSON.parse(readFileSync(file, "utf8"));
}

/** Replaces the brand `SERVICE`, with which examples are recorded, in header names. */
export function replaceBrand(example: unknown, brand: string): unknown {
  return example && JSON.parse(JSON.stringify(example).replaceAll('"X-SERVICE-', `"X-${brand}-`));
}
