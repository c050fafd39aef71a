import { environment as environments } from "../../shared/domain/events/fields.ts";
import { type PartnerErrorCode, partnerErrors } from "../../shared/partner-api/error-codes.ts";
import {
  type PartnerOperation,
  type PartnerOperationId,
  partnerOperations,
} from "../../shared/partner-api/operations.ts";
import { getPositionHeader } from "../../shared/partner-api/position-header.ts";
import { type PartnerWrite, type PartnerWriteId, partnerWrites } from "../../shared/partner-api/writes.ts";
import type { PartnerRead } from "../partner/read.ts";
import { describeErrors, type ErrorStatuses } from "./errors.ts";
import { readExamples, replaceBrand } from "./examples.ts";
import { basicChallengeHeader, describeOptionalRateLimitHeaders, rateLimitRefs, toHeaderRefs } from "./headers.ts";
import { toContent, toFormName, toJsonSchema, toRequestName, toResponseName, toSchemaRef } from "./json-schema.ts";
import type { Content, Header, Operation, Parameter, Response } from "./openapi.ts";
import { describeHeaderParameter, describeQueryParameters } from "./parameters.ts";
import { listReadErrors, listWriteErrors } from "./partner-errors.ts";
import { findSectionName } from "./partner-sections.ts";
import { describeSecurity } from "./partner-security.ts";

/** A partner operation whose path has the literal type that `findSectionName` needs. */
type DeclaredOperation = PartnerOperation & Pick<(typeof partnerOperations)[PartnerOperationId], "path">;

const { operations } = readExamples("partner");

/** Describes a read operation of the partner API. */
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
        content: toContent(toResponseName(partnerRead.operationId), example),
      },
      ...describePartnerErrors(listReadErrors(operation, partnerRead), operation),
    },
  };
}

/** Describes a write operation of the partner API. */
export function describeWrite(operationId: PartnerWriteId, brand: string): Operation {
  const operation: PartnerOperation = partnerOperations[operationId];
  const partnerWrite: PartnerWrite = partnerWrites[operationId];
  const { status, description, headers = {} } = partnerWrite.successResponse;
  const operationHeaders = Object.entries(headers).map(([name, header]) => [
    name,
    { ...header, schema: toJsonSchema(header.schema, "output") },
  ]);
  const parameters = [...describeAccessParameters(operation, brand), ...describeRequestHeaders(partnerWrite)];
  return {
    ...describeOperation(operationId, partnerWrite.description),
    parameters,
    ...(partnerWrite.request && { requestBody: { required: true, content: describeBody(operationId, partnerWrite) } }),
    responses: {
      [status]: {
        description,
        headers: {
          ...toHeaderRefs("X-Correlation-ID"),
          ...rateLimitRefs,
          ...Object.fromEntries(operationHeaders),
          ...describePositionHeader(brand),
        },
        content: toContent(toResponseName(operationId), operations[operationId]?.response),
      },
      ...describePartnerErrors(listWriteErrors(operation, partnerWrite), operation),
    },
  };
}

function describeBody(operationId: PartnerWriteId, { form }: PartnerWrite): Content {
  const formSchema = { $ref: toSchemaRef(toFormName(operationId)) };
  return {
    ...toContent(toRequestName(operationId), operations[operationId]?.request),
    ...(form && { "application/x-www-form-urlencoded": { schema: formSchema } }),
  };
}

function describeOperation(operationId: PartnerOperationId, description: string) {
  const { scope, summary, path, requiresSandbox }: DeclaredOperation = partnerOperations[operationId];
  return {
    operationId,
    tags: [findSectionName(path)],
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

/** Describes the request header that makes a read reflect an earlier write. */
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

const pathIdDescriptions: Readonly<Record<string, string>> = {
  endpointId: "Id of the webhook endpoint.",
  deliveryId: "Id of the delivery.",
  replayId: "Id of the replay.",
};

/** Describes the ids in the operation's path, and the clinic and branch headers. */
function describeAccessParameters({ path, requiresClinic }: PartnerOperation, brand: string): Parameter[] {
  const schema = { type: "string", format: "uuid" };
  const pathParameters = [...path.matchAll(/:(\w+)/g)].map(([, name = ""]): Parameter => {
    return { name, in: "path", required: true, description: pathIdDescriptions[name] ?? "Id of the object.", schema };
  });
  if (!requiresClinic) return pathParameters;
  const clinicText = "Id of the clinic. The clinic must have approved the application.";
  const branchText = "Id of a branch that the installation covers. Limits the request to this branch.";
  return [
    ...pathParameters,
    describeHeaderParameter(`X-${brand}-Clinic-ID`, clinicText, schema),
    describeHeaderParameter(`X-${brand}-Branch-ID`, branchText, schema, false),
  ];
}

function describeRequestHeaders({ requestHeaders = {} }: PartnerWrite): Parameter[] {
  return Object.entries(requestHeaders).map(([name, { description, required, schema }]) =>
    describeHeaderParameter(name, description, toJsonSchema(schema, "input"), required),
  );
}

function describePartnerErrors(
  statuses: ErrorStatuses<PartnerErrorCode>,
  { scope }: PartnerOperation,
): Record<string, Response> {
  return describeErrors(statuses, partnerErrors, (status) => {
    const rateHeaders = status < 500 ? rateLimitRefs : describeOptionalRateLimitHeaders();
    const challengeHeaders = scope ? toHeaderRefs("WWW-Authenticate") : basicChallengeHeader;
    const retryAfterHeaders = status === 429 || status === 503 ? toHeaderRefs("Retry-After") : {};
    return {
      ...toHeaderRefs("X-Correlation-ID"),
      ...rateHeaders,
      ...(status === 401 && challengeHeaders),
      ...retryAfterHeaders,
    };
  });
}
