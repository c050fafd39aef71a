import { timeWindow } from "../http/fields.ts";
import { listRefusalConditions, type PortalOperationId, type Refusal, requirements } from "../portal/authorization.ts";
import { limitedPage, type PortalOperation } from "../portal/operation.ts";
import { addCurl } from "./curl.ts";
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

/** Recorded responses by operation id. {@link insertName} replaces the recorded name of the operator. */
const { operations: examples } = readExamples("portal");

/** Errors that every operation can return. The operations do not list them. */
const generalErrors = {
  malformed_request: [400, "The request is not valid HTTP."],
  not_found: [404, "The path does not exist."],
  method_not_allowed: [405, "The path does not support this method. The header `Allow` lists the supported methods."],
  request_timeout: [408, "The request took too long to arrive: more than 10 s for the headers or 20 s in total."],
  operation_retired: [410, "The operation is no longer available."],
  headers_too_large: [431, "The headers are larger than 32 KiB."],
} as const;

/** Describes the session cookie and all errors. */
function buildIntroduction(cookieName: string): string {
  const statuses: Partial<Record<Code, number>> = commonErrorStatuses;
  const rows = [
    ...Object.entries(errorDescriptions).map(([code, text]) => [statuses[code as Code] ?? 403, code, text] as const),
    ...Object.entries(generalErrors).map(([code, [status, text]]) => [status, code, text] as const),
  ].sort(([a], [b]) => a - b);
  return `The portal read API has read-only operations for a clinic's staff. The service determines the
clinic and the branch from the session. Access also depends on the member's permissions and the clinic's plan. Most
operations require operational access: the clinic is active, and its subscription or demo has not expired. Knowing an
id grants no access.

An invalid query parameter does not cause an error. The service uses the default or the nearest allowed value instead.
Every list has a maximum length, so it may not contain all records. After a 503, retry with bounded backoff. Wait at
least the number of seconds in \`Retry-After\`.

## Session

The portal sets the session cookie \`${cookieName}\` when a user signs in. It can be split into chunks with the suffixes
\`.0\`, \`.1\` and so on. The browser sends it with requests to the portal's origin, so a script of the portal needs only
\`fetch("/api/v1/clinic/context")\`. Do not create this cookie yourself, and do not store it in other programs. It is
neither an API key nor a credential of a partner.

The curl commands of the operations are for test accounts. Sign in to the portal, and open the network panel of the
browser's developer tools. Set the shell variable \`SESSION\` to the value of the request header \`Cookie\`, and
\`PORTAL\` to the portal's origin, such as \`https://portal.example.com\`.

## Errors

Every response with status 400 or above has the body \`{ok: false, error, correlationId, docUrl}\`. \`error\` is a
stable code, and \`docUrl\` is the path of its row in this table.

| status | code | meaning |
|---|---|---|
${rows.map(([status, code, text]) => `| ${status} | \`${code}\` | ${text} |`).join("\n")}`;
}

/** Base URL and cookie in curl commands, as shell variables. The section about the session explains how to set them. */
const CURL_CONTEXT = { baseUrl: "$PORTAL", credentials: "Cookie: $SESSION" };

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
      description: buildIntroduction(cookieName),
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
  { operationId, path, summary, description, parameters }: PortalOperation,
  operatorName: string,
): Operation {
  const refusalStatuses = listRefusalConditions(requirements[operationId]).map(([code]) => [code, 403]);
  const statuses: Partial<Record<Code, number>> = { ...commonErrorStatuses, ...Object.fromEntries(refusalStatuses) };
  const described: Operation = {
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
  return addCurl(described, "GET", path, CURL_CONTEXT);
}

/** Replaces the recorded operator's name, because the schema permits only the name of this service's operator. */
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
