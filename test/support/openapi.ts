/** Checks responses against an OpenAPI document. Fails for an undocumented status, header or field. */
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

const COOKIE = ['Cookie realm="portal"'];
const BASIC_OR_NONE = ['Basic realm="token", charset="UTF-8"', null];
const NONE = [null];

/**
 * Possible values of `WWW-Authenticate`, by error code of a 401 or 403. Null means no header.
 *
 * Most 403 responses have no header, because a new token would not help. A token request without an Authorization
 * header gets none either, because browsers open a dialog for Basic.
 */
export const challenges: Readonly<Record<string, readonly (string | null)[]>> = {
  missing_token: ["Bearer"],
  invalid_token: ['Bearer error="invalid_token"'],
  insufficient_scope: ['Bearer error="insufficient_scope", scope="{scope}"'],
  ...{ authentication_required: COOKIE, session_expired: COOKIE },
  ...{ invalid_client: BASIC_OR_NONE, invalid_request: BASIC_OR_NONE, invalid_scope: BASIC_OR_NONE },
  unsupported_grant_type: BASIC_OR_NONE,
  ...{ clinic_header_invalid: NONE, installation_denied: NONE, branch_denied: NONE, sandbox_only: NONE },
  ...{ clinic_not_operational: NONE, no_active_membership: NONE, branch_not_in_scope: NONE },
  ...{ permission_required: NONE, entitlement_required: NONE, operational_access_denied: NONE },
};

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

  function checkChallenge(label: string, { security }: Operation, { status, headers, body }: CheckedResponse) {
    const { error = "" } = body as { error?: string };
    const [scope = ""] = Object.values(security?.[0] ?? {}).flat();
    const expectedChallenges = (status === 401 || status === 403 ? challenges[error] : NONE) ?? [];
    const challenge = headers.get("WWW-Authenticate");
    if (!expectedChallenges.some((text) => (text?.replace("{scope}", scope) ?? null) === challenge))
      throw new Error(`${label} ${error} has the challenge ${challenge}`);
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
      checkChallenge(label, operation, { status, headers, body });
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
