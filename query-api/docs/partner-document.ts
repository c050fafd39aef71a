import { partnerAppointment } from "../../shared/partner-api/appointment-record.ts";
import {
  type PartnerOperation,
  type PartnerOperationId,
  partnerOperations,
} from "../../shared/partner-api/operations.ts";
import { webhookEndpointRecord } from "../../shared/partner-api/webhook-endpoint-record.ts";
import { type PartnerWrite, type PartnerWriteId, partnerWrites } from "../../shared/partner-api/writes.ts";
import { deliveryRecord } from "../partner/list-webhook-deliveries.ts";
import { partnerPage } from "../partner/page.ts";
import type { AnyPartnerRead } from "../partner/read.ts";
import { errorBody, errorsIntroduction } from "./errors.ts";
import { challengeHeader, commonHeaders, rateLimitHeaders } from "./headers.ts";
import { toComponents } from "./json-schema.ts";
import type { OpenApiDocument, PathItem } from "./openapi.ts";
import { describeRead, describeWrite, toRequestName, toResponseName } from "./partner-operation.ts";
import { partnerTags } from "./partner-sections.ts";
import { describeSecuritySchemes, describeServers } from "./partner-security.ts";
import { describeWebhooks, webhookBodies } from "./webhooks.ts";

export interface PartnerDocumentOptions {
  operatorName: string;
  /** Brand segment of the header names. */
  brand: string;
  /** Public origin of the partner API. It is also the issuer of the tokens. */
  origin: string;
}

const table = Object.entries(partnerOperations) as [PartnerOperationId, PartnerOperation][];

const introduction = `The partner API gives your application access to the clinics that have approved it. First exchange
your credentials for an access token. Then send the token and the clinic's id with each request. Credentials alone grant no
access to a clinic.

The API has two environments, sandbox and production. Each has its own base URL and its own credentials. Date-times follow
RFC 3339. Responses contain UTC with milliseconds. Requests must contain a UTC offset. After a 429 or 503, retry with
bounded backoff, and wait at least the number of seconds in \`Retry-After\`.`;

/**
 * Builds the OpenAPI document of the partner API from the declarations that the routers of both services use. Its
 * servers are the base URLs of both environments.
 */
export function buildPartnerDocument(
  reads: readonly AnyPartnerRead[],
  { operatorName, brand, origin }: PartnerDocumentOptions,
): OpenApiDocument {
  const paths: Record<string, PathItem> = {};
  for (const [operationId, { method, path, sandbox }] of table) {
    const read = reads.find((candidate) => candidate.operationId === operationId);
    const operation = read ? describeRead(read, brand) : describeWrite(operationId as PartnerWriteId, brand);
    const template = path.replace(/:(\w+)/g, "{$1}");
    paths[template] = {
      ...paths[template],
      [method.toLowerCase()]: sandbox
        ? { ...operation, servers: describeServers(origin, ["sandbox"]) }
        : operation,
    };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Partner API",
      version: "1.1.0",
      summary: "Clinic data, appointments and webhooks for approved applications.",
      description: `${introduction}\n\n${errorsIntroduction}`,
      contact: { name: operatorName },
    },
    servers: describeServers(origin),
    tags: partnerTags,
    paths,
    webhooks: describeWebhooks(brand),
    components: {
      schemas: buildSchemas(reads),
      headers: { ...commonHeaders, ...rateLimitHeaders, ...challengeHeader },
      securitySchemes: describeSecuritySchemes(origin),
    },
  };
}

function buildSchemas(reads: readonly AnyPartnerRead[]) {
  const writes = Object.entries(partnerWrites) as [PartnerWriteId, PartnerWrite][];
  const requests = writes.flatMap(([id, { request }]) => (request ? [[toRequestName(id), request]] : []));
  const outputs = {
    ...Object.fromEntries(reads.map(({ operationId, response }) => [toResponseName(operationId), response])),
    ...Object.fromEntries(writes.map(([id, { success }]) => [toResponseName(id), success.body])),
  };
  const shared = {
    Appointment: partnerAppointment,
    WebhookEndpoint: webhookEndpointRecord,
    WebhookDelivery: deliveryRecord,
    Page: partnerPage,
    Error: errorBody,
  };
  return {
    ...toComponents(Object.fromEntries(requests), "input"),
    ...toComponents({ ...outputs, ...shared, ...webhookBodies }, "output"),
  };
}
