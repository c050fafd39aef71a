import { timeWindow } from "../http/fields.ts";
import { listRefusalConditions, type PortalOperationId, type Refusal, requirements } from "../portal/authorization.ts";
import { limitedPage, type PortalOperation } from "../portal/operation.ts";
import {
  describeQueryParameters,
  type OpenApiDocument,
  type Operation,
  readExamples,
  toComponents,
  toContent,
  toSchemaName,
} from "./openapi.ts";
import { commonHeaders, describeErrors, errorBody, sessionChallengeHeader, toHeaderRefs } from "./responses.ts";

export interface PortalDocumentOptions {
  operatorName: string;
  cookieName: string;
}

const commonErrorStatuses = {
  authentication_required: 401,
  session_expired: 401,
  internal_error: 500,
  session_keys_unavailable: 503,
  data_source_unavailable: 503,
} as const;

type Code = Refusal | keyof typeof commonErrorStatuses;

const errorDescriptions: Readonly<Record<Code, string>> = {
  authentication_required: "The request has no session cookie, or its session is not valid.",
  session_expired: "The session has expired.",
  no_active_membership: "The user is not an active member of any clinic.",
  branch_not_in_scope: "The membership does not cover any branch of the clinic.",
  permission_required: "The membership does not have the required permission.",
  entitlement_required: "The clinic's plan does not include the required entitlement, or the entitlement has expired.",
  operational_access_denied: "The clinic is suspended or closed, its demo has expired, or its subscription has lapsed.",
  internal_error: "An unexpected error occurred.",
  session_keys_unavailable: "The service cannot verify sessions at the moment.",
  data_source_unavailable: "The service cannot read data at the moment.",
};

/** Responses by operation id, from a service of an operator with another name. */
const { operations: examples } = readExamples("portal");

const introduction = `The portal read API has read-only operations for a clinic's staff. The service determines the
clinic and the branch from the session. Access also depends on the member's permissions and the clinic's plan. Most
operations require operational access: the clinic is active, and its subscription or demo has not expired. Knowing an
id grants no access.

Send the session cookie that the portal sets at sign-in. Do not create this cookie yourself, and do not copy it to
other programs. An invalid query parameter does not cause an error. The service uses the default or the nearest
allowed value instead.

Every list has a maximum length, so it may not contain all records.

After a 503, retry with bounded backoff. Wait at least the number of seconds in \`Retry-After\`.

## Errors

Every response with status 400 or above has the body \`{ok: false, error, correlationId}\`. \`error\` is a stable code.
Each operation lists its error codes. In addition, every operation can return these errors:

| status | code | meaning |
|---|---|---|
| 400 | \`malformed_request\` | The request is not valid HTTP. |
| 404 | \`not_found\` | The path does not exist. |
| 405 | \`method_not_allowed\` | The path does not support this method. The header \`Allow\` lists the supported methods. |
| 408 | \`request_timeout\` | The request took too long to arrive: more than 10 s for the headers or 20 s in total. |
| 410 | \`operation_retired\` | The operation is no longer available. |
| 431 | \`headers_too_large\` | The headers are larger than 32 KiB. |`;

/** Builds the OpenAPI document of the portal API from the declarations that the portal's router also uses. */
export function buildPortalDocument(
  operations: readonly PortalOperation[],
  { operatorName, cookieName }: PortalDocumentOptions,
): OpenApiDocument {
  const responses = operations.map(({ operationId, response }) => [toSchemaName(operationId, "Result"), response]);
  return {
    openapi: "3.1.0",
    info: {
      title: "Portal read API",
      version: "1.1.0",
      summary: "Read-only operations for signed-in members of a clinic's staff.",
      description: introduction,
      contact: { name: operatorName },
    },
    servers: [{ url: "/", description: "Origin of the portal" }],
    tags: [{ name: "Portal", description: "Read data of the signed-in user's clinics." }],
    paths: Object.fromEntries(
      operations.map((operation) => [operation.path, { get: describeOperation(operation, operatorName) }]),
    ),
    components: {
      schemas: toComponents(
        { ...Object.fromEntries(responses), Page: limitedPage, TimeWindow: timeWindow, Error: errorBody },
        "output",
      ),
      headers: { ...commonHeaders, ...sessionChallengeHeader },
      securitySchemes: {
        session: {
          type: "apiKey",
          in: "cookie",
          name: cookieName,
          description:
            "Session cookie that the portal sets at sign-in. It may be split into chunks with the suffixes `.0`, `.1` and so on.",
        },
      },
    },
  };
}

function describeOperation(
  { operationId, summary, description, parameters }: PortalOperation,
  operatorName: string,
): Operation {
  const refusalStatuses = listRefusalConditions(requirements[operationId]).map(([code]) => [code, 403]);
  const statuses: Partial<Record<Code, number>> = { ...commonErrorStatuses, ...Object.fromEntries(refusalStatuses) };
  return {
    operationId,
    tags: ["Portal"],
    summary,
    description: `${description}\n\n${describeRequirements(operationId)}`,
    security: [{ session: [] }],
    parameters: describeQueryParameters(parameters),
    responses: {
      "200": {
        description: "Success.",
        headers: toHeaderRefs("X-Correlation-ID"),
        content: toContent(
          toSchemaName(operationId, "Result"),
          insertName(examples[operationId]?.response, operatorName),
        ),
      },
      ...describeErrors(statuses, errorDescriptions, (status) => ({
        ...toHeaderRefs("X-Correlation-ID"),
        ...(status === 401 && toHeaderRefs("WWW-Authenticate")),
        ...(status === 503 && toHeaderRefs("Retry-After")),
      })),
    },
  };
}

/** The schema permits only the name of this service's operator. */
function insertName(example: unknown, operatorName: string): unknown {
  return example === undefined
    ? undefined
    : JSON.parse(JSON.stringify(example), (name, value) => (name === "identityOwner" ? operatorName : value));
}

function describeRequirements(operationId: PortalOperationId): string {
  const { permission, entitlement, requiresBranch, requiresOperationalAccess } = requirements[operationId];
  const phrases = [
    "an active membership in a clinic",
    ...(requiresBranch ? ["access to a branch"] : []),
    ...(permission ? [`the permission \`${permission}\``] : []),
    ...(entitlement ? [`the entitlement \`${entitlement}\``] : []),
    ...(requiresOperationalAccess ? ["operational access"] : []),
  ];
  return `Requires ${new Intl.ListFormat("en").format(phrases)}.`;
}
