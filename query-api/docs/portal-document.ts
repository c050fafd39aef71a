import {
  type PortalOperationId,
  type Refusal,
  refusalConditions,
  requirements,
} from "../portal/authorization.ts";
import { page, timeWindow } from "../portal/fields.ts";
import type { AnyPortalOperation } from "../portal/operation.ts";
import { errorBody, errorResponses, errorsIntroduction } from "./errors.ts";
import { commonHeaders, headerRefs } from "./headers.ts";
import { schemaRef, toComponents } from "./json-schema.ts";
import type { OpenApiDocument, Operation } from "./openapi.ts";
import { queryParameters } from "./parameters.ts";

export interface PortalDocumentOptions {
  operatorName: string;
  /** Of the portal's session cookie. */
  cookieName: string;
}

const unauthenticated = { authentication_required: 401, session_expired: 401 } as const;
const unavailable = { session_keys_unavailable: 503, data_source_unavailable: 503 } as const;

type Code = Refusal | keyof typeof unauthenticated | keyof typeof unavailable | "internal_error";

const meanings: Readonly<Record<Code, string>> = {
  authentication_required: "There is no session, or none that can be trusted.",
  session_expired: "The session has expired.",
  no_active_membership: "The user is an active member of no clinic.",
  branch_not_in_scope: "No branch of the clinic is in the member's scope.",
  permission_required: "The member lacks the permission.",
  entitlement_required: "The clinic's plan does not hold the entitlement, or no longer.",
  operational_access_denied: "The clinic is suspended or closed, its demo over, or its subscription lapsed.",
  internal_error: "Something unforeseen went wrong.",
  session_keys_unavailable: "Sessions cannot be verified for now.",
  data_source_unavailable: "Data cannot be read for now.",
};

const introduction = `What a clinic's staff sees. Everything is read-only and bounded by the clinic and branch that the
server resolves for the session, by the member's permissions, the clinic's plan and its operational access. Knowing an
id grants nothing.

A request carries the session cookie that signing in to the portal sets; it is not made or copied elsewhere. Query
parameters that cannot be used are not refused: they fall back, as each says.

Every list is a limited result set, neither a count nor an export. On 503, try again with bounded backoff, not before
\`Retry-After\`.`;

/** The portal API as an OpenAPI document, from the declarations that its router is made from. */
export function portalDocument(
  operations: readonly AnyPortalOperation[],
  { operatorName, cookieName }: PortalDocumentOptions,
): OpenApiDocument {
  const responses = operations.map(({ operationId, response }) => [responseName(operationId), response]);
  return {
    openapi: "3.1.0",
    info: {
      title: "Portal read API",
      version: "1.1.0",
      summary: "Reads for a signed-in member of a clinic's staff.",
      description: `${introduction}\n\n${errorsIntroduction}`,
      contact: { name: operatorName },
    },
    servers: [{ url: "/", description: "The portal's own origin" }],
    tags: [{ name: "Portal", description: "Reads, all of them by GET" }],
    paths: Object.fromEntries(operations.map((operation) => [operation.path, { get: describe(operation) }])),
    components: {
      schemas: toComponents(
        { ...Object.fromEntries(responses), Page: page, TimeWindow: timeWindow, Error: errorBody },
        "output",
      ),
      headers: { ...commonHeaders },
      securitySchemes: {
        session: {
          type: "apiKey",
          in: "cookie",
          name: cookieName,
          description: "Set by signing in to the portal; may be split into chunks `.0`, `.1`, …",
        },
      },
    },
  };
}

function describe({ operationId, summary, description, parameters }: AnyPortalOperation): Operation {
  const schema = { $ref: schemaRef(responseName(operationId)) };
  const refusals = refusalConditions(requirements[operationId]).map(([code]) => [code, 403]);
  const statuses: Partial<Record<Code, number>> = {
    ...unauthenticated,
    ...Object.fromEntries(refusals),
    internal_error: 500,
    ...unavailable,
  };
  return {
    operationId,
    tags: ["Portal"],
    summary,
    description: `${description}\n\n${requirementText(operationId)}`,
    security: [{ session: [] }],
    parameters: queryParameters(parameters),
    responses: {
      "200": {
        description: "What was asked for.",
        headers: headerRefs("X-Correlation-ID"),
        content: { "application/json": { schema } },
      },
      ...errorResponses(statuses, meanings, (status) =>
        status === 503 ? headerRefs("X-Correlation-ID", "Retry-After") : headerRefs("X-Correlation-ID"),
      ),
    },
  };
}

/** What the operation asks of the caller, in words. */
function requirementText(operationId: PortalOperationId): string {
  const { permission, entitlement, branch, operational } = requirements[operationId];
  const asked = [
    "an active membership",
    ...(branch ? ["a branch in scope"] : []),
    ...(permission ? [`the permission \`${permission}\``] : []),
    ...(entitlement ? [`the entitlement \`${entitlement}\``] : []),
    ...(operational ? ["operational access"] : []),
  ];
  return `Requires: ${asked.join(", ")}.`;
}

function responseName(operationId: PortalOperationId): string {
  return `${operationId.charAt(0).toUpperCase()}${operationId.slice(1)}Response`;
}
