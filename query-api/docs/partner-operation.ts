import { environment as environments } from "../../shared/domain/events/fields.ts";
import { type PartnerErrorCode, type PartnerRefusals, partnerErrors } from "../../shared/partner-api/error-codes.ts";
import {
  getPositionHeader,
  type PartnerOperation,
  type PartnerOperationId,
  partnerOperations,
  sections,
} from "../../shared/partner-api/operations.ts";
import { type PartnerWrite, type PartnerWriteId, partnerWrites } from "../../shared/partner-api/writes.ts";
import type { PartnerRead } from "../partner/read.ts";
import {
  describeHeaderParameter,
  describeQueryParameters,
  type Header,
  type Operation,
  type Parameter,
  type Response,
  readExamples,
  replaceBrand,
  toContent,
  toJsonSchema,
  toSchemaName,
} from "./openapi.ts";
import { describeSecurity } from "./partner-security.ts";
import {
  basicChallengeHeader,
  describeErrors,
  describeOptionalRateLimitHeaders,
  rateLimitRefs,
  type StatusesByCode,
  toHeaderRefs,
} from "./responses.ts";

const { operations } = readExamples("partner");

export function describeRead(partnerRead: PartnerRead, brand: string): Operation {
  const operation: PartnerOperation = partnerOperations[partnerRead.operationId];
  const example = replaceBrand(operations[partnerRead.operationId]?.response, brand);
  return {
    ...describeOperation(partnerRead.operationId, partnerRead.description),
    parameters: [
      ...describeAccessParameters(operation, brand),
      describePositionParameter(brand),
      ...describeQueryParameters(partnerRead.parameters),
      ...(partnerRead.isPaged ? [cursorParameter] : []),
    ],
    responses: {
      "200": {
        description: "Success.",
        headers: { ...toHeaderRefs("X-Correlation-ID"), ...rateLimitRefs },
        content: toContent(toSchemaName(partnerRead.operationId, "Result"), example),
      },
      ...describePartnerErrors(listReadErrors(operation, partnerRead), operation),
    },
  };
}

export function describeWrite(operationId: PartnerWriteId, brand: string): Operation {
  const operation: PartnerOperation = partnerOperations[operationId];
  const partnerWrite: PartnerWrite = partnerWrites[operationId];
  const { status, description, headers = {} } = partnerWrite.successResponse;
  const operationHeaders = Object.entries(headers).map(([name, header]) => [
    name,
    { ...header, schema: toJsonSchema(header.schema, "output") },
  ]);
  const parameters = [...describeAccessParameters(operation, brand), ...describeRequestHeaders(partnerWrite)];
  const requestContent = toContent(toSchemaName(operationId, "Request"), operations[operationId]?.request);
  return {
    ...describeOperation(operationId, partnerWrite.description),
    parameters,
    ...(partnerWrite.request && { requestBody: { required: !partnerWrite.isBodyOptional, content: requestContent } }),
    responses: {
      [status]: {
        description,
        headers: {
          ...toHeaderRefs("X-Correlation-ID"),
          ...rateLimitRefs,
          ...Object.fromEntries(operationHeaders),
          ...describePositionHeader(brand),
        },
        content: toContent(toSchemaName(operationId, "Result"), operations[operationId]?.response),
      },
      ...describePartnerErrors(listWriteErrors(operation, partnerWrite), operation),
    },
  };
}

function describeOperation(operationId: PartnerOperationId, description: string) {
  const { scope, summary, path, requiresSandbox }: PartnerOperation = partnerOperations[operationId];
  return {
    operationId,
    tags: [sections[path.split("/")[1] as keyof typeof sections].name],
    summary,
    description: scope ? `${description}\n\nRequires the scope \`${scope}\`.` : description,
    security: describeSecurity(scope, requiresSandbox ? ["sandbox"] : environments.options),
  };
}

const cursorParameter: Parameter = {
  name: "cursor",
  in: "query",
  required: false,
  description: "Value of `page.nextCursor` in the previous page. Omit it to get the first page.",
  schema: { type: "string" },
};

function describePositionParameter(brand: string): Parameter {
  const description =
    "Log position that an earlier write returned. The response reflects that write, or the request fails with 503 `read_model_behind`.";
  return describeHeaderParameter(getPositionHeader(brand), description, { type: "string" }, false);
}

function describePositionHeader(brand: string): Record<string, Header> {
  const description =
    "Log position of this write, an opaque string. Send this header with a read whose response must reflect this write.";
  return { [getPositionHeader(brand)]: { description, required: false, schema: { type: "string" } } };
}

/** Describes an id in a path, such as `endpointId`: "Id of the endpoint." */
const describePathId = (name: string) => `Id of the ${name.replace(/Id$/, "")}.`;

function describeAccessParameters({ path, requiresClinic }: PartnerOperation, brand: string): Parameter[] {
  const schema = { type: "string", format: "uuid" };
  const pathParameters = [...path.matchAll(/:(\w+)/g)].map(([, name = ""]): Parameter => {
    return { name, in: "path", required: true, description: describePathId(name), schema };
  });
  if (!requiresClinic) return pathParameters;
  const clinicText = "Id of the clinic. The clinic must have approved the application.";
  const branchText = "Id of a branch that the installation covers. Limits the request to this branch.";
  return [
    ...pathParameters,
    // Without the format `uuid`, because openapi-python-client cannot send a UUID object in a header.
    describeHeaderParameter(`X-${brand}-Clinic-ID`, clinicText),
    describeHeaderParameter(`X-${brand}-Branch-ID`, branchText, { type: "string" }, false),
  ];
}

function describeRequestHeaders({ requestHeaders = {} }: PartnerWrite): Parameter[] {
  return Object.entries(requestHeaders).map(([name, { description, required, schema }]) =>
    describeHeaderParameter(name, description, toJsonSchema(schema, "input"), required),
  );
}

function describePartnerErrors(
  statuses: StatusesByCode<PartnerErrorCode>,
  { scope }: PartnerOperation,
): Record<string, Response> {
  return describeErrors(statuses, partnerErrors, (status) => {
    const rateHeaders = status < 500 ? rateLimitRefs : describeOptionalRateLimitHeaders();
    const challengeHeaders = scope ? toHeaderRefs("WWW-Authenticate") : basicChallengeHeader;
    const retryAfterHeaders = status === 429 || status === 503 ? toHeaderRefs("Retry-After") : {};
    return {
      ...toHeaderRefs("X-Correlation-ID"),
      ...rateHeaders,
      ...((status === 401 || (status === 403 && scope)) && challengeHeaders),
      ...retryAfterHeaders,
    };
  });
}

function listReadErrors(operation: PartnerOperation, partnerRead: PartnerRead): PartnerRefusals {
  return {
    ...listAccessErrors(operation),
    ...{ invalid_log_position: 400, validation_failed: 400 },
    ...(partnerRead.isPaged && { invalid_cursor: 400 }),
    ...partnerRead.refusals,
    internal_error: 500,
    data_source_unavailable: 503,
    token_keys_unavailable: 503,
    read_model_behind: 503,
  };
}

function listWriteErrors(operation: PartnerOperation, partnerWrite: PartnerWrite): StatusesByCode<PartnerErrorCode> {
  return {
    ...listAccessErrors(operation),
    ...(partnerWrite.request && { invalid_json: 400, body_too_large: 413, unsupported_media_type: 415 }),
    ...partnerWrite.refusals,
    ...(partnerWrite.formRefusals && mergeStatuses(partnerWrite.refusals, partnerWrite.formRefusals)),
    internal_error: 500,
    event_log_unavailable: 503,
  };
}

/** Returns the error codes of form requests, each with its HTTP statuses in form requests and in JSON requests. */
function mergeStatuses(refusals: PartnerRefusals, formRefusals: PartnerRefusals): StatusesByCode<PartnerErrorCode> {
  const formStatuses = Object.entries(formRefusals) as [PartnerErrorCode, number][];
  return Object.fromEntries(
    formStatuses.map(([code, status]) => [code, [...new Set([refusals[code] ?? status, status])]]),
  );
}

function listAccessErrors({ path, scope, requiresClinic, requiresSandbox }: PartnerOperation): PartnerRefusals {
  return {
    ...(path.includes(":") && { not_found: 404 }),
    ...(scope && { missing_token: 401, invalid_token: 401, insufficient_scope: 403 }),
    ...(requiresClinic && {
      clinic_header_invalid: 403,
      installation_denied: 403,
      branch_denied: 403,
    }),
    ...(requiresSandbox && { sandbox_only: 403, installation_denied: 403 }),
    rate_limit_exceeded: 429,
    rate_limit_unavailable: 503,
  };
}

/** Tag of webhooks. No operation has this tag, because client generators write one file per tag. */
export const webhookTag = {
  name: "Webhook events",
  description:
    "Requests that the service sends to endpoints. To receive the events on a machine without a public address, run `clinic partner listen`. It needs no endpoint, and prints its own signing secret.",
};

/** Tags of the partner document, in the order in which the page shows them. */
export const partnerTags = [...Object.values(sections), webhookTag];
