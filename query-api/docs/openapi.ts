/** Types for the parts of OpenAPI 3.1 that the documents use. */

export type JsonSchema = Record<string, unknown>;

export interface OpenApiDocument {
  openapi: "3.1.0";
  info: { title: string; version: string; summary: string; description: string; contact: { name: string } };
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
  /** Servers that offer the operation. Undefined if all servers of the document offer the operation. */
  servers?: Server[];
  parameters: Parameter[];
  requestBody?: { required: true; content: Content };
  responses: Record<string, Response>;
}

export interface Parameter {
  name: string;
  in: "query" | "header" | "path";
  required: boolean;
  description: string;
  schema: JsonSchema;
}

/** Schema of a body, with an example of the body. */
export interface MediaType {
  schema: JsonSchema;
  example?: unknown;
}

export interface Content {
  "application/json": MediaType;
  "application/x-www-form-urlencoded"?: MediaType;
  "application/cloudevents+json"?: MediaType;
}

export interface Header {
  description: string;
  /** If true, the header is always present in the responses that document it. */
  required: boolean;
  schema: JsonSchema;
}

export interface Response {
  description: string;
  headers: Record<string, Header | { $ref: string }>;
  content?: Content;
}
