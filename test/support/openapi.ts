/** Checks real responses against an OpenAPI document. An undocumented status, header or field is an error. */
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import type { Header, OpenApiDocument, Operation } from "../../query-api/docs/openapi.ts";

export interface CheckedResponse {
  status: number;
  headers: Headers;
  body: unknown;
}

/** An operation, with its path and method in the document. */
export interface DocumentedOperation {
  operationId: string;
  method: string;
  path: string;
  operation: Operation;
}

export interface ResponseChecker {
  operations: readonly DocumentedOperation[];
  /** Returns the operation of a request; undefined if the document does not contain it. */
  findOperation(method: string, path: string): DocumentedOperation | undefined;
  /** Fails if the status, body or headers of a response differ from the document. */
  checkResponse(operation: DocumentedOperation, response: CheckedResponse): void;
}

/** Headers that the documents do not list, because they belong to the transport or occur in every response. */
const UNDOCUMENTED_HEADERS = new Set([
  "cache-control",
  "connection",
  "content-length",
  "content-type",
  "date",
  "keep-alive",
  "x-content-type-options",
]);

export function createResponseChecker(document: OpenApiDocument): ResponseChecker {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  // ajv-formats is a CommonJS module, so its types and its default export do not match.
  (formats as unknown as typeof formats.default)(ajv);
  ajv.addSchema(document as object, "document");
  const validators = new Map<string, ValidateFunction>();
  const operations = listOperations(document);

  function validate(name: string, pointer: string[], value: unknown): void {
    const ref = `document#/${pointer.map(escapePointer).join("/")}`;
    const validator = validators.get(ref) ?? ajv.compile({ $ref: ref });
    validators.set(ref, validator);
    if (validator(value)) return;
    throw new Error(`${name} differs from the document: ${ajv.errorsText(validator.errors)}\n${JSON.stringify(value)}`);
  }

  function checkHeaders(label: string, declaredHeaders: Record<string, Header | { $ref: string }>, headers: Headers) {
    for (const [name, header] of Object.entries(declaredHeaders)) {
      const { required, schema } = resolve(document, header);
      const text = headers.get(name);
      if (text === null && required) throw new Error(`${label} lacks the header ${name}`);
      if (text === null) continue;
      const value = schema.type === "integer" ? Number(text) : text;
      if (!ajv.validate(schema, value)) throw new Error(`${label} has an invalid header ${name}: ${text}`);
    }
    const knownNames = new Set(Object.keys(declaredHeaders).map((name) => name.toLowerCase()));
    for (const name of headers.keys()) {
      if (!knownNames.has(name) && !UNDOCUMENTED_HEADERS.has(name))
        throw new Error(`${label} has the undocumented header ${name}`);
    }
  }

  return {
    operations,
    findOperation: (method, path) =>
      operations.find((operation) => operation.method === method && buildPathPattern(operation.path).test(path)),
    checkResponse({ operationId, method, path, operation }, { status, headers, body }) {
      const label = `response ${status} of ${operationId}`;
      const documentedResponse = operation.responses[status];
      if (!documentedResponse) throw new Error(`${label} is not in the document: ${JSON.stringify(body)}`);
      const pointer = ["paths", path, method.toLowerCase(), "responses", String(status), "content"];
      validate(label, [...pointer, "application/json", "schema"], body);
      checkHeaders(label, documentedResponse.headers, headers);
      if (!headers.get("Content-Type")?.startsWith("application/json")) throw new Error(`${label} is not JSON`);
      if (headers.get("Cache-Control") !== "no-store") throw new Error(`${label} lacks Cache-Control: no-store`);
    },
  };
}

function listOperations(document: OpenApiDocument): DocumentedOperation[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      ...{ operationId: operation.operationId, method: method.toUpperCase() },
      ...{ path, operation },
    })),
  );
}

function resolve(document: OpenApiDocument, header: Header | { $ref: string }): Header {
  if (!("$ref" in header)) return header;
  const component = document.components.headers[header.$ref.split("/").at(-1) ?? ""];
  if (!component) throw new Error(`the document does not define the header ${header.$ref}`);
  return component;
}

function buildPathPattern(path: string): RegExp {
  return new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`);
}

function escapePointer(segment: string): string {
  return encodeURIComponent(segment.replaceAll("~", "~0").replaceAll("/", "~1"));
}
