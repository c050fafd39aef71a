import { environment as environments } from "../../shared/domain/events/fields.ts";
import { type PartnerErrorCode, partnerErrors } from "../../shared/partner-api/error-codes.ts";
import {
  type PartnerOperation,
  type PartnerOperationId,
  partnerOperations,
} from "../../shared/partner-api/operations.ts";
import { positionHeader } from "../../shared/partner-api/position-header.ts";
import { type PartnerWrite, type PartnerWriteId, partnerWrites } from "../../shared/partner-api/writes.ts";
import type { AnyPartnerRead } from "../partner/read.ts";
import { errorResponses } from "./errors.ts";
import { headerRefs, optionalRateLimitHeaders, rateLimitRefs } from "./headers.ts";
import { schemaRef, toJsonSchema } from "./json-schema.ts";
import type { Content, Header, Operation, Parameter, Response } from "./openapi.ts";
import { queryParameters, uuidHeader } from "./parameters.ts";
import { errorsOfRead, errorsOfWrite } from "./partner-errors.ts";
import { sectionOf } from "./partner-sections.ts";
import { security } from "./partner-security.ts";

/** An operation with one of the declared paths. */
type DeclaredOperation = PartnerOperation & Pick<(typeof partnerOperations)[PartnerOperationId], "path">;

/** Describes a read of the partner API. */
export function describeRead(read: AnyPartnerRead, brand: string): Operation {
  const operation: PartnerOperation = partnerOperations[read.operationId];
  return {
    ...common(read.operationId, read.description),
    parameters: [
      ...accessParameters(operation, brand),
      positionParameter(brand),
      ...queryParameters(read.parameters),
      ...(read.paged ? [cursorParameter] : []),
    ],
    responses: {
      "200": {
        description: "Success.",
        headers: { ...headerRefs("X-Correlation-ID"), ...rateLimitRefs },
        content: referTo(responseName(read.operationId)),
      },
      ...errors(errorsOfRead(operation, read), operation),
    },
  };
}

/** Describes a write of the partner API. */
export function describeWrite(operationId: PartnerWriteId, brand: string): Operation {
  const operation: PartnerOperation = partnerOperations[operationId];
  const write: PartnerWrite = partnerWrites[operationId];
  const { status, description, headers } = write.success;
  const own = Object.entries(headers).map(([name, header]) => [
    name,
    { ...header, schema: toJsonSchema(header.schema, "output") },
  ]);
  const parameters = [...accessParameters(operation, brand), ...headerParameters(write)];
  return {
    ...common(operationId, write.description),
    parameters,
    ...(write.request && { requestBody: { required: true, content: referTo(requestName(operationId)) } }),
    responses: {
      [status]: {
        description,
        headers: {
          ...headerRefs("X-Correlation-ID"),
          ...rateLimitRefs,
          ...Object.fromEntries(own),
          ...positionOfWrite(brand),
        },
        content: referTo(responseName(operationId)),
      },
      ...errors(errorsOfWrite(operation, write), operation),
    },
  };
}

export function responseName(operationId: PartnerOperationId): string {
  return `${capital(operationId)}Response`;
}

export function requestName(operationId: PartnerWriteId): string {
  return `${capital(operationId)}Request`;
}

function common(operationId: PartnerOperationId, description: string) {
  const { scope, summary, path, sandbox }: DeclaredOperation = partnerOperations[operationId];
  return {
    operationId,
    tags: [sectionOf(path)],
    summary,
    description: scope ? `${description}\n\nRequires the scope \`${scope}\`.` : description,
    security: security(scope, sandbox ? ["sandbox"] : environments.options),
  };
}

const cursorParameter: Parameter = {
  name: "cursor",
  in: "query",
  required: false,
  description: "Start of the page: `page.nextCursor` of the previous page. Leave it out for the first page.",
  schema: { type: "string" },
};

/** Describes the header that makes a read reflect an earlier write. */
function positionParameter(brand: string): Parameter {
  return {
    name: positionHeader(brand),
    in: "header",
    required: false,
    description:
      "Log position returned by a write. The read reflects that write or fails with 503 `read_model_behind`.",
    schema: { type: "string" },
  };
}

function positionOfWrite(brand: string): Record<string, Header> {
  const description =
    "Log position of this write, an opaque string. Send it with a read that must reflect this write.";
  return { [positionHeader(brand)]: { description, required: false, schema: { type: "string" } } };
}

const pathIds: Readonly<Record<string, string>> = {
  endpointId: "Id of the webhook endpoint.",
  deliveryId: "Id of the delivery.",
};

/** Describes the ids in the path, and the headers for clinic and branch. */
function accessParameters({ path, clinic }: PartnerOperation, brand: string): Parameter[] {
  const ids = [...path.matchAll(/:(\w+)/g)].map(
    ([, name = ""]): Parameter => ({
      ...{ name, in: "path", required: true, description: pathIds[name] ?? "Id of the object." },
      schema: { type: "string", format: "uuid" },
    }),
  );
  if (!clinic) return ids;
  return [
    ...ids,
    uuidHeader(`X-${brand}-Clinic-ID`, true, "The clinic. It must have approved the application."),
    uuidHeader(`X-${brand}-Branch-ID`, false, "Limits the request to one branch of the installation."),
  ];
}

function headerParameters({ requestHeaders }: PartnerWrite): Parameter[] {
  return Object.entries(requestHeaders).map(([name, { description, required, schema }]) => ({
    ...{ name, in: "header", required, description },
    schema: toJsonSchema(schema, "input"),
  }));
}

function errors(
  statuses: Readonly<Partial<Record<PartnerErrorCode, number>>>,
  { scope }: PartnerOperation,
): Record<string, Response> {
  return errorResponses(statuses, partnerErrors, (status) => {
    const rate = status < 500 ? rateLimitRefs : optionalRateLimitHeaders();
    const challenge = status === 401 && scope ? headerRefs("WWW-Authenticate") : {};
    const wait = status === 429 || status === 503 ? headerRefs("Retry-After") : {};
    return { ...headerRefs("X-Correlation-ID"), ...rate, ...challenge, ...wait };
  });
}

function referTo(schema: string): Content {
  return { "application/json": { schema: { $ref: schemaRef(schema) } } };
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
