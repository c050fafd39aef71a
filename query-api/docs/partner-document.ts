import {
  type PartnerOperation,
  type PartnerOperationId,
  partnerOperations,
} from "../../shared/partner-api/operations.ts";
import { publicAppointment, webhookEndpoint, webhookEndpointDetail } from "../../shared/partner-api/records.ts";
import { eventBodies } from "../../shared/partner-api/webhook-body.ts";
import { type PartnerWrite, type PartnerWriteId, partnerWrites } from "../../shared/partner-api/writes.ts";
import { timeWindow } from "../http/fields.ts";
import { partnerPage } from "../partner/cursor.ts";
import type { PartnerRead } from "../partner/read.ts";
import { listedDelivery } from "../partner/webhook-deliveries.ts";
import { addCurl } from "./curl.ts";
import { type OpenApiDocument, type PathItem, toComponents, toSchemaName } from "./openapi.ts";
import { buildPartnerGuides } from "./partner-guides.ts";
import { describeRead, describeWrite, partnerTags } from "./partner-operation.ts";
import { describeSecuritySchemes, describeServers } from "./partner-security.ts";
import { challengeHeader, commonHeaders, errorBody, rateLimitHeaders } from "./responses.ts";
import { cloudEvents, describeWebhooks } from "./webhooks.ts";

export interface PartnerDocumentOptions {
  operatorName: string;
  /** Brand in header names, as in `X-<brand>-Clinic-ID`. */
  brand: string;
  /** Public origin of the partner API, which is also the issuer of access tokens. */
  origin: string;
}

const operations = Object.entries(partnerOperations) as [PartnerOperationId, PartnerOperation][];

const introduction = `The partner API gives your application access to the clinics that have approved it. First
exchange your credentials for an access token. Then send the token and the clinic's id with each request. Credentials
alone grant no access to a clinic.

The API has two environments, sandbox and production. Each has its own base URL and its own credentials. Date-times
follow RFC 3339. In responses they are in UTC with milliseconds. In requests they must have a UTC offset.

After a 429 or 503, retry with bounded backoff. Wait at least the number of seconds in \`Retry-After\`.`;

/** Shell code for the curl commands. The Quickstart sets the variables. */
const CURL_CONTEXT = { baseUrl: "$API", credentials: "Authorization: Bearer $TOKEN" };

/**
 * Builds the OpenAPI document of the partner API from the declarations that the routers of the query API and the
 * command API use. The document's servers are the base URLs of both environments.
 */
export function buildPartnerDocument(
  reads: readonly PartnerRead[],
  { operatorName, brand, origin }: PartnerDocumentOptions,
): OpenApiDocument {
  const paths: Record<string, PathItem> = {};
  for (const [operationId, { method, path, requiresSandbox }] of operations) {
    const foundRead = reads.find((candidate) => candidate.operationId === operationId);
    const operation = foundRead ? describeRead(foundRead, brand) : describeWrite(operationId as PartnerWriteId, brand);
    const pathTemplate = path.replace(/:(\w+)/g, "{$1}");
    paths[pathTemplate] = {
      ...paths[pathTemplate],
      [method.toLowerCase()]: {
        ...addCurl(operation, method, pathTemplate, CURL_CONTEXT),
        ...(requiresSandbox && { servers: describeServers(origin, ["sandbox"]) }),
      },
    };
  }
  const describedOperations = Object.values(paths).flatMap((item) => Object.values(item));
  const sandboxUrl = describeServers(origin, ["sandbox"])[0]?.url ?? "";
  return {
    openapi: "3.1.0",
    info: {
      title: "Partner API",
      version: "1.2.0",
      summary: "Clinic data, appointments and webhooks for approved applications.",
      description: `${introduction}\n\n${buildPartnerGuides(brand, sandboxUrl, describedOperations)}`,
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

function buildSchemas(reads: readonly PartnerRead[]) {
  const writes = Object.entries(partnerWrites) as [PartnerWriteId, PartnerWrite][];
  const requestSchemas = writes.flatMap(([id, { request }]) =>
    request ? [[toSchemaName(id, "Request"), request]] : [],
  );
  const responseSchemas = {
    ...Object.fromEntries(reads.map(({ operationId, response }) => [toSchemaName(operationId, "Result"), response])),
    ...Object.fromEntries(
      writes.map(([id, { successResponse: success }]) => [toSchemaName(id, "Result"), success.body]),
    ),
  };
  const sharedSchemas = {
    Appointment: publicAppointment.schema,
    WebhookEndpoint: webhookEndpoint.schema,
    WebhookEndpointDetail: webhookEndpointDetail.schema,
    WebhookDelivery: listedDelivery.schema,
    Page: partnerPage,
    TimeWindow: timeWindow,
    Error: errorBody,
  };
  return {
    ...toComponents(Object.fromEntries(requestSchemas), "input"),
    ...toComponents({ ...responseSchemas, ...sharedSchemas, ...eventBodies, ...cloudEvents }, "output"),
  };
}
