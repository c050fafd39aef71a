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
  find(method: string, path: string): DocumentedOperation | undefined;
  /** Fails if the status, body or headers of a response differ from the document. */
  check(documented: DocumentedOperation, answer: CheckedResponse): void;
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

  function validate(what: string, pointer: string[], value: unknown): void {
    const ref = `document#/${pointer.map(escapePointer).join("/")}`;
    const validator = validators.get(ref) ?? ajv.compile({ $ref: ref });
    validators.set(ref, validator);
    if (validator(value)) return;
    throw new Error(`${what} differs from the document: ${ajv.errorsText(validator.errors)}\n${JSON.stringify(value)}`);
  }

  function checkHeaders(what: string, declared: Record<string, Header | { $ref: string }>, actual: Headers) {
    for (const [name, header] of Object.entries(declared)) {
      const { required, schema } = resolve(document, header);
      const text = actual.get(name);
      if (text === null && required) throw new Error(`${what} lacks the header ${name}`);
      if (text === null) continue;
      const value = schema.type === "integer" ? Number(text) : text;
      if (!ajv.validate(schema, value)) throw new Error(`${what} has an invalid header ${name}: ${text}`);
    }
    const known = new Set(Object.keys(declared).map((name) => name.toLowerCase()));
    for (const name of actual.keys()) {
      if (!known.has(name) && !UNDOCUMENTED_HEADERS.has(name))
        throw new Error(`${what} has the undocumented header ${name}`);
    }
  }

  return {
    operations,
    find: (method, path) => operations.find((item) => item.method === method && buildPathPattern(item.path).test(path)),
    check({ operationId, method, path, operation }, { status, headers, body }) {
      const what = `response ${status} of ${operationId}`;
      const documented = operation.responses[status];
      if (!documented) throw new Error(`${what} is not in the document: ${JSON.stringify(body)}`);
      const pointer = ["paths", path, method.toLowerCase(), "responses", String(status), "content"];
      validate(what, [...pointer, "application/json", "schema"], body);
      checkHeaders(what, documented.headers, headers);
      if (!headers.get("Content-Type")?.startsWith("application/json")) throw new Error(`${what} is not JSON`);
      if (headers.get("Cache-Control") !== "no-store") throw new Error(`${what} lacks Cache-Control: no-store`);
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
  const found = document.components.headers[header.$ref.split("/").at(-1) ?? ""];
  if (!found) throw new Error(`the document does not define the header ${header.$ref}`);
  return found;
}

function buildPathPattern(path: string): RegExp {
  return new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`);
}

function escapePointer(segment: string): string {
  return encodeURIComponent(segment.replaceAll("~", "~0").replaceAll("/", "~1"));
}
