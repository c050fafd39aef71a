import { randomUUID } from "node:crypto";
import {
  type PartnerOperation,
  type PartnerOperationId,
  partnerOperations,
} from "../../../shared/partner-api/operations.ts";
import { eventually } from "../../support/eventually.ts";
import type { PartnerResponse } from "../../support/partner.ts";
import { newEndpointBody, operationsWithBody, type PartnerRequest, send, validRequests } from "./partner-requests.ts";
import type { PartnerContractWorld } from "./partner-world.ts";

/** Sends a real request whose response has a certain status. */
export type StatusTrigger = (world: PartnerContractWorld) => Promise<PartnerResponse>;

/** Functions by HTTP status. Each function provokes a response with its status. */
type StatusTriggers = Record<number, StatusTrigger>;

/** Changes a valid request and sends it. */
function sendChanged(
  id: PartnerOperationId,
  change: (request: PartnerRequest) => Partial<PartnerRequest>,
): StatusTrigger {
  return async (world) => {
    const request = await validRequests[id](world.unrestrictedPartner, world);
    return send(world.origins, { ...request, ...change(request) });
  };
}

const sendWithHeader = (id: PartnerOperationId, name: string, value: string) =>
  sendChanged(id, ({ headers }) => ({ headers: { ...headers, [name]: value } }));

/** Provokes the statuses that every operation can return. */
function createCommonTriggers(id: PartnerOperationId): StatusTriggers {
  return {
    429: async (world) => {
      const request = await validRequests[id](world.rateLimitedPartner, world);
      return eventually("429", async () => {
        const response = await send(world.origins, request);
        return response.status === 429 && response;
      });
    },
    500: async (world) => send(world.damagedOrigins, await validRequests[id](world.damagedPartner, world)),
    503: async (world) => send(world.originsWithoutServers, await validRequests[id](world.unrestrictedPartner, world)),
  };
}

/** Provokes the statuses of the access check. */
function createAccessTriggers(id: PartnerOperationId): StatusTriggers {
  const { requiresSandbox }: PartnerOperation = partnerOperations[id];
  return {
    401: sendChanged(id, ({ headers: { Authorization: _, ...headers } }) => ({ headers })),
    403: requiresSandbox
      ? async (world) =>
          send(world.origins, {
            ...(await validRequests[id](world.unrestrictedPartner, world)),
            headers: world.clinicScopePartner.headers,
          })
      : sendWithHeader(id, "X-SERVICE-Clinic-ID", "none"),
  };
}

function createReadTriggers(id: PartnerOperationId): StatusTriggers {
  return {
    ...createCommonTriggers(id),
    ...createAccessTriggers(id),
    200: sendChanged(id, () => ({})),
    400: sendWithHeader(id, "X-SERVICE-Log-Position", "here"),
  };
}

function createWriteTriggers(id: PartnerOperationId): StatusTriggers {
  return { ...createCommonTriggers(id), ...createAccessTriggers(id) };
}

function createInvalidBodyTriggers(id: PartnerOperationId): StatusTriggers {
  if (!(operationsWithBody as readonly string[]).includes(id)) return {};
  return {
    400: sendChanged(id, () => ({ body: "{" })),
    413: sendChanged(id, () => ({ body: JSON.stringify("x".repeat(70_000)) })),
    415: sendWithHeader(id, "Content-Type", "text/plain"),
  };
}

/** Sends a request with the id of an endpoint that does not exist. */
const sendToUnknownEndpoint = (id: PartnerOperationId) =>
  sendChanged(id, ({ path }) => ({ path: path.replace(/endpoints\/[^/]+/, `endpoints/${randomUUID()}`) }));

/** Revokes the endpoint of a request, and then sends the request. */
const sendAfterRevocation =
  (id: PartnerOperationId): StatusTrigger =>
  async (world) => {
    const request = await validRequests[id](world.unrestrictedPartner, world);
    const path = /^\/webhook-endpoints\/[^/]+/.exec(request.path)?.[0] ?? "";
    const { status } = await send(world.origins, { ...request, method: "DELETE", path });
    if (status !== 200) throw new Error(`Revoking the endpoint returned ${status}.`);
    return send(world.origins, request);
  };

const sendValid = (id: PartnerOperationId) => sendChanged(id, () => ({}));

/** Functions by operation and documented status. Each function provokes a response with its status. */
export const statusTriggers: Record<PartnerOperationId, StatusTriggers> = {
  exchangeToken: {
    ...createCommonTriggers("exchangeToken"),
    ...createInvalidBodyTriggers("exchangeToken"),
    200: sendValid("exchangeToken"),
    401: sendChanged("exchangeToken", ({ body }) => ({
      body: { ...(body as object), client_secret: "wrong" },
    })),
  },
  getClinicContext: createReadTriggers("getClinicContext"),
  listPartnerAppointments: {
    ...createReadTriggers("listPartnerAppointments"),
    200: async (world) => {
      for (let count = 0; count < 2; count += 1) {
        await send(world.origins, await validRequests.createPartnerAppointment(world.unrestrictedPartner, world));
      }
      return sendValid("listPartnerAppointments")(world);
    },
    400: sendChanged("listPartnerAppointments", ({ path }) => ({ path: `${path}&cursor=nowhere` })),
  },
  createPartnerAppointment: {
    ...createWriteTriggers("createPartnerAppointment"),
    ...createInvalidBodyTriggers("createPartnerAppointment"),
    201: sendValid("createPartnerAppointment"),
    409: async (world) => {
      const request = await validRequests.createPartnerAppointment(world.unrestrictedPartner, world);
      await send(world.origins, request);
      return send(world.origins, { ...request, body: { ...(request.body as object), notes: "another" } });
    },
    422: sendChanged("createPartnerAppointment", ({ body }) => ({
      body: { ...(body as object), branchId: randomUUID() },
    })),
  },
  getSandboxState: createReadTriggers("getSandboxState"),
  resetSandbox: { ...createWriteTriggers("resetSandbox"), 200: sendValid("resetSandbox") },
  listWebhookEndpoints: {
    ...createReadTriggers("listWebhookEndpoints"),
    200: async (world) => {
      await sendValid("createWebhookEndpoint")(world);
      return sendValid("listWebhookEndpoints")(world);
    },
  },
  createWebhookEndpoint: {
    ...createWriteTriggers("createWebhookEndpoint"),
    ...createInvalidBodyTriggers("createWebhookEndpoint"),
    201: sendValid("createWebhookEndpoint"),
    400: sendChanged("createWebhookEndpoint", () => ({ body: { ...newEndpointBody, url: "https://10.0.0.1/" } })),
    409: async (world) => {
      const partner = await world.createPartner();
      await world.useUpEndpointQuota(partner);
      return send(world.origins, await validRequests.createWebhookEndpoint(partner, world));
    },
  },
  revokeWebhookEndpoint: {
    ...createWriteTriggers("revokeWebhookEndpoint"),
    200: sendValid("revokeWebhookEndpoint"),
    404: sendToUnknownEndpoint("revokeWebhookEndpoint"),
  },
  rotateWebhookSecret: {
    ...createWriteTriggers("rotateWebhookSecret"),
    200: sendValid("rotateWebhookSecret"),
    404: sendToUnknownEndpoint("rotateWebhookSecret"),
    409: sendAfterRevocation("rotateWebhookSecret"),
  },
  testWebhookEndpoint: {
    ...createWriteTriggers("testWebhookEndpoint"),
    202: sendValid("testWebhookEndpoint"),
    404: sendToUnknownEndpoint("testWebhookEndpoint"),
    409: sendAfterRevocation("testWebhookEndpoint"),
  },
  listWebhookDeliveries: {
    ...createReadTriggers("listWebhookDeliveries"),
    404: sendToUnknownEndpoint("listWebhookDeliveries"),
  },
  replayWebhookDelivery: {
    ...createWriteTriggers("replayWebhookDelivery"),
    202: sendValid("replayWebhookDelivery"),
    404: sendToUnknownEndpoint("replayWebhookDelivery"),
    409: sendAfterRevocation("replayWebhookDelivery"),
  },
};
