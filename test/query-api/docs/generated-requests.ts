import fc from "fast-check";
import type { JsonSchema, Parameter } from "../../../query-api/docs/openapi.ts";
import { partnerDocument, partnerResponseChecker } from "../../support/partner-document.ts";
import type { PartnerRequest } from "./sandbox-request.ts";

/** Values of common types at the limits of what the service, Postgres or JavaScript can represent. */
const EXTREME_VALUES: unknown[] = [
  ...["", " ", "\0", "\ud83d", "%", "\\", "null", "__proto__", "'; --", "e\u0301".repeat(40), "x".repeat(2_500)],
  ...["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59-14:00", "0000-01-01T00:00:00+14:00"],
  ...["2099-02-29T00:00:00Z", "2099-05-04T10:00:00+02:00", "2099-05-04 10:00:00Z", "infinity", "now"],
  ...[
    "http://127.0.0.1:9/",
    `http://127.0.0.1:9/${"ü".repeat(700)}`,
    "http://[::1]:0/\ud83d",
    "https://localhost:99999",
  ],
  ...["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "9223372036854775808", "-1"],
  ...[null, true, [], {}, [null], { a: {} }, 0, -1, 0.5, 2 ** 31, 2 ** 53, Number.MAX_VALUE, Number.MIN_VALUE],
];

const anyValueArbitrary = fc.oneof(
  fc.constantFrom(...EXTREME_VALUES),
  fc.string({ unit: "binary", maxLength: 60 }),
  fc.jsonValue({ maxDepth: 2 }),
);

/** Generates values that mostly match the schema, and rarely any other values. */
function createArbitrary(schema: JsonSchema): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 8, arbitrary: createValidArbitrary(schema) }, { weight: 1, arbitrary: anyValueArbitrary });
}

function createValidArbitrary(schema: JsonSchema): fc.Arbitrary<unknown> {
  const { anyOf, items, properties, additionalProperties } = schema as Record<string, never>;
  if (schema.enum) return fc.constantFrom(...(schema.enum as unknown[]));
  if (schema.const) return fc.constant(schema.const);
  if (anyOf) return fc.oneof(...(anyOf as JsonSchema[]).map(createArbitrary));
  if (items) return fc.array(createArbitrary(items), { maxLength: 4 });
  if (properties) {
    const entries = Object.entries(properties as Record<string, JsonSchema>);
    return fc.record(Object.fromEntries(entries.map(([name, member]) => [name, createArbitrary(member)])), {
      requiredKeys: [],
    });
  }
  if (additionalProperties) return fc.dictionary(fc.string({ maxLength: 70 }), createArbitrary(additionalProperties));
  if (schema.format === "uuid") return fc.uuid();
  if (schema.format === "date-time") return dateTimeArbitrary;
  if (schema.type === "integer") return fc.integer();
  return schema.type === "boolean" ? fc.boolean() : fc.string();
}

const dateTimeArbitrary = fc
  .date({ min: new Date("0001-01-01"), max: new Date("9999-12-31T23:59:59.999Z"), noInvalidDate: true })
  .map((date) => date.toISOString());

/**
 * Generates a new value for a parameter, or null to keep its value. Headers and ids are mostly kept, because otherwise
 * the access check would refuse nearly all requests.
 */
function createReplacementArbitrary({ in: location, schema }: Parameter): fc.Arbitrary<unknown> {
  const weight = location === "query" ? 1 : 9;
  return fc.oneof({ weight, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: createArbitrary(schema) });
}

/** Generates variants of a valid request. Any parameters and body members can be replaced. */
export function createRequestArbitrary(
  operationId: string,
  validRequest: PartnerRequest,
): fc.Arbitrary<PartnerRequest> {
  const operation = partnerResponseChecker.operations.find((candidate) => candidate.operationId === operationId);
  if (!operation) throw new Error(`The document has no operation ${operationId}`);
  const { parameters, requestBody } = operation.operation;
  const schemaName = requestBody?.content["application/json"]?.schema.$ref as string | undefined;
  const bodySchema = partnerDocument.components.schemas[schemaName?.split("/").at(-1) ?? ""];
  return fc
    .record({
      values: fc.tuple(...parameters.map(createReplacementArbitrary)),
      key: fc.uuid(),
      body: bodySchema ? createArbitrary(bodySchema) : fc.constant(undefined),
      replacesBody: fc.boolean(),
    })
    .map(({ values, key, body, replacesBody }) => {
      const [validPath = "", validQuery] = validRequest.path.split("?");
      const query = new URLSearchParams(validQuery);
      const headers = { ...validRequest.headers };
      if (headers["Idempotency-Key"]) headers["Idempotency-Key"] = key;
      const pathSegments = validPath.split("/");
      for (const [index, { name, in: location }] of parameters.entries()) {
        const value = values[index];
        if (value === null || value === undefined) continue;
        const text = typeof value === "string" ? value : JSON.stringify(value);
        if (location === "query") query.set(name, text);
        if (location === "header") headers[name] = text.replaceAll(/[^\x20-\x7e\x80-\xff]/g, "").trim();
        // Other texts would change the path of the operation.
        const pathIndex = operation.path.split("/").indexOf(`{${name}}`);
        if (location === "path" && /^[\w :;%+\\-]+$/.test(text)) pathSegments[pathIndex] = encodeURIComponent(text);
      }
      const { body: validBody } = validRequest;
      const isMerged = !replacesBody && typeof body === "object" && body !== null && !Array.isArray(body);
      return {
        method: validRequest.method,
        path: `${pathSegments.join("/")}?${query}`,
        headers,
        ...(bodySchema && { body: isMerged ? { ...(validBody as object), ...body } : body }),
      };
    });
}
