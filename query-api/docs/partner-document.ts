import { partnerAppointment } from "../../shared/partner-api/appointment-record.ts";
import {
  type PartnerOperation,
  type PartnerOperationId,
  partnerOperations,
} from "../../shared/partner-api/operations.ts";
import { webhookEndpointRecord } from "../../shared/partner-api/webhook-endpoint-record.ts";
import { type PartnerWrite, type PartnerWriteId, partnerWrites } from "../../shared/partner-api/writes.ts";
import { delivery } from "../partner/list-webhook-deliveries.ts";
import { partnerPage } from "../partner/page.ts";
import type { AnyPartnerRead } from "../partner/read.ts";
import { errorBody, errorsIntroduction } from "./errors.ts";
import { challengeHeader, commonHeaders, rateLimitHeaders } from "./headers.ts";
import { toComponents } from "./json-schema.ts";
import type { OpenApiDocument, PathItem } from "./openapi.ts";
import { describeRead, describeWrite, requestName, responseName } from "./partner-operation.ts";
import { partnerTags } from "./partner-sections.ts";
import { partnerSecuritySchemes, partnerServers } from "./partner-security.ts";
import { webhookBodies, webhookItems } from "./webhooks.ts";

export interface PartnerDocumentOptions {
  operatorName: string;
  /** The segment of the header names. */
  brand: string;
  /** The partner API's public origin, which is its tokens' issuer. */
  origin: string;
}

const table = Object.entries(partnerOperations) as [PartnerOperationId, PartnerOperation][];

const introduction = `For applications that a clinic has approved. Credentials are exchanged for a token; the token, the
header that names the clinic, and the clinic's approval of the application open the rest. Credentials alone open nothing.

Sandbox and production have a base and credentials each, and are the same API. Date-times are RFC 3339, in UTC with
milliseconds where we send them, with an offset where we take them. On 429 and 503, try again with bounded backoff, not
before \`Retry-After\`.`;

/**
 * The partner API as one OpenAPI document with both bases as servers, since an application is written once and moves
 * from the sandbox to production by its base and credentials alone. From the table and declarations that both services
 * serve it by.
 */
export function partnerDocument(
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
        ? { ...operation, servers: partnerServers(origin, ["sandbox"]) }
        : operation,
    };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Partner API",
      version: "1.1.0",
      summary: "Clinic data and webhooks for approved applications.",
      description: `${introduction}\n\n${errorsIntroduction}`,
      contact: { name: operatorName },
    },
    servers: partnerServers(origin),
    tags: partnerTags,
    paths,
    webhooks: webhookItems(brand),
    components: {
      schemas: schemas(reads),
      headers: { ...commonHeaders, ...rateLimitHeaders, ...challengeHeader },
      securitySchemes: partnerSecuritySchemes(origin),
    },
  };
}

function schemas(reads: readonly AnyPartnerRead[]) {
  const writes = Object.entries(partnerWrites) as [PartnerWriteId, PartnerWrite][];
  const requests = writes.flatMap(([id, { request }]) => (request ? [[requestName(id), request]] : []));
  const outputs = {
    ...Object.fromEntries(reads.map(({ operationId, response }) => [responseName(operationId), response])),
    ...Object.fromEntries(writes.map(([id, { success }]) => [responseName(id), success.body])),
  };
  const shared = {
    Appointment: partnerAppointment,
    WebhookEndpoint: webhookEndpointRecord,
    WebhookDelivery: delivery,
    Page: partnerPage,
    Error: errorBody,
  };
  return {
    ...toComponents(Object.fromEntries(requests), "input"),
    ...toComponents({ ...outputs, ...shared, ...webhookBodies }, "output"),
  };
}
