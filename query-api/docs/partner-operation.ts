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

/** An operation, its path one of the table's. */
type DeclaredOperation = PartnerOperation & Pick<(typeof partnerOperations)[PartnerOperationId], "path">;

/** A read of the partner API as the document tells of it. */
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
        description: "What was asked for.",
        headers: { ...headerRefs("X-Correlation-ID"), ...rateLimitRefs },
        content: referTo(responseName(read.operationId)),
      },
      ...errors(errorsOfRead(operation, read), operation),
    },
  };
}

/** An operation that changes something, as the document tells of it. */
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
    description: scope ? `${description}\n\nRequires: the scope \`${scope}\`.` : description,
    security: security(scope, sandbox ? ["sandbox"] : environments.options),
  };
}

const cursorParameter: Parameter = {
  name: "cursor",
  in: "query",
  required: false,
  description: "Where the page goes on: `page.nextCursor` of the page before.",
  schema: { type: "string" },
};

/** Lets a read know of a write before it. */
function positionParameter(brand: string): Parameter {
  return {
    name: positionHeader(brand),
    in: "header",
    required: false,
    description:
      "As it came with the answer to a write: the read knows of that write, or is refused with 503.",
    schema: { type: "string" },
  };
}

function positionOfWrite(brand: string): Record<string, Header> {
  const description = "An opaque text to give to reads that must know of this write.";
  return { [positionHeader(brand)]: { description, required: false, schema: { type: "string" } } };
}

/** The ids in the path, and the headers that name clinic and branch. */
function accessParameters({ path, clinic }: PartnerOperation, brand: string): Parameter[] {
  const ids = [...path.matchAll(/:(\w+)/g)].map(
    ([, name = ""]): Parameter => ({
      ...{ name, in: "path", required: true, description: "As its list names it." },
      schema: { type: "string", format: "uuid" },
    }),
  );
  if (!clinic) return ids;
  return [
    ...ids,
    uuidHeader(`X-${brand}-Clinic-ID`, true, "The clinic, which has approved the application."),
    uuidHeader(`X-${brand}-Branch-ID`, false, "Of the installation's branches, only this one."),
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
