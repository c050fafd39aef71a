import { randomUUID } from "node:crypto";
import {
  type PartnerOperation,
  type PartnerOperationId,
  partnerOperations,
} from "../../../shared/partner-api/operations.ts";
import { eventually } from "../../support/eventually.ts";
import type { PartnerResponse } from "../../support/partner.ts";
import { newEndpoint, operationsWithBody, type PartnerRequest, send, validRequests } from "./partner-requests.ts";
import type { PartnerContractWorld } from "./partner-world.ts";

/** Sends a real request whose response has a certain status. */
export type Provoke = (world: PartnerContractWorld) => Promise<PartnerResponse>;

/** Functions by HTTP status. Each function provokes a response with its status. */
type Provocations = Record<number, Provoke>;

/** Changes a valid request and sends it. */
function sendChanged(id: PartnerOperationId, change: (request: PartnerRequest) => Partial<PartnerRequest>): Provoke {
  return async (world) => {
    const request = await validRequests[id](world.unrestricted, world);
    return send(world.origins, { ...request, ...change(request) });
  };
}

const sendWithHeader = (id: PartnerOperationId, name: string, value: string) =>
  sendChanged(id, ({ headers }) => ({ headers: { ...headers, [name]: value } }));

/** Provokes the statuses that every operation can return. */
function commonProvocations(id: PartnerOperationId): Provocations {
  return {
    429: async (world) => {
      const request = await validRequests[id](world.rateLimited, world);
      return eventually("429", async () => {
        const response = await send(world.origins, request);
        return response.status === 429 && response;
      });
    },
    500: async (world) => send(world.damagedOrigins, await validRequests[id](world.damaged, world)),
    503: async (world) => send(world.withoutServers, await validRequests[id](world.unrestricted, world)),
  };
}

/** Provokes the statuses of the access check. */
function accessProvocations(id: PartnerOperationId): Provocations {
  const { requiresSandbox }: PartnerOperation = partnerOperations[id];
  return {
    401: sendChanged(id, ({ headers: { Authorization: _, ...headers } }) => ({ headers })),
    403: requiresSandbox
      ? async (world) =>
          send(world.origins, {
            ...(await validRequests[id](world.unrestricted, world)),
            headers: world.clinicScopeOnly.headers,
          })
      : sendWithHeader(id, "X-SERVICE-Clinic-ID", "none"),
  };
}

function readProvocations(id: PartnerOperationId): Provocations {
  return {
    ...commonProvocations(id),
    ...accessProvocations(id),
    200: sendChanged(id, () => ({})),
    400: sendWithHeader(id, "X-SERVICE-Log-Position", "here"),
  };
}

function writeProvocations(id: PartnerOperationId): Provocations {
  return { ...commonProvocations(id), ...accessProvocations(id) };
}

function bodyProvocations(id: PartnerOperationId): Provocations {
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
  (id: PartnerOperationId): Provoke =>
  async (world) => {
    const request = await validRequests[id](world.unrestricted, world);
    const path = /^\/webhook-endpoints\/[^/]+/.exec(request.path)?.[0] ?? "";
    const { status } = await send(world.origins, { ...request, method: "DELETE", path });
    if (status !== 200) throw new Error(`Revoking the endpoint returned ${status}.`);
    return send(world.origins, request);
  };

const sendValid = (id: PartnerOperationId) => sendChanged(id, () => ({}));

/** Functions by operation and documented status. Each function provokes a response with its status. */
export const provocations: Record<PartnerOperationId, Provocations> = {
  exchangeToken: {
    ...commonProvocations("exchangeToken"),
    ...bodyProvocations("exchangeToken"),
    200: sendValid("exchangeToken"),
    401: sendChanged("exchangeToken", ({ body }) => ({
      body: { ...(body as object), client_secret: "wrong" },
    })),
  },
  getClinicContext: readProvocations("getClinicContext"),
  listPartnerAppointments: {
    ...readProvocations("listPartnerAppointments"),
    200: async (world) => {
      for (let count = 0; count < 2; count += 1) {
        await send(world.origins, await validRequests.createPartnerAppointment(world.unrestricted, world));
      }
      return sendValid("listPartnerAppointments")(world);
    },
    400: sendChanged("listPartnerAppointments", ({ path }) => ({ path: `${path}&cursor=nowhere` })),
  },
  createPartnerAppointment: {
    ...writeProvocations("createPartnerAppointment"),
    ...bodyProvocations("createPartnerAppointment"),
    201: sendValid("createPartnerAppointment"),
    409: async (world) => {
      const request = await validRequests.createPartnerAppointment(world.unrestricted, world);
      await send(world.origins, request);
      return send(world.origins, { ...request, body: { ...(request.body as object), notes: "another" } });
    },
    422: sendChanged("createPartnerAppointment", ({ body }) => ({
      body: { ...(body as object), branchId: randomUUID() },
    })),
  },
  getSandboxState: readProvocations("getSandboxState"),
  resetSandbox: { ...writeProvocations("resetSandbox"), 200: sendValid("resetSandbox") },
  listWebhookEndpoints: {
    ...readProvocations("listWebhookEndpoints"),
    200: async (world) => {
      await sendValid("createWebhookEndpoint")(world);
      return sendValid("listWebhookEndpoints")(world);
    },
  },
  createWebhookEndpoint: {
    ...writeProvocations("createWebhookEndpoint"),
    ...bodyProvocations("createWebhookEndpoint"),
    201: sendValid("createWebhookEndpoint"),
    400: sendChanged("createWebhookEndpoint", () => ({ body: { ...newEndpoint, url: "https://10.0.0.1/" } })),
    409: async (world) => {
      const partner = await world.createPartner();
      await world.useUpEndpointQuota(partner);
      return send(world.origins, await validRequests.createWebhookEndpoint(partner, world));
    },
  },
  revokeWebhookEndpoint: {
    ...writeProvocations("revokeWebhookEndpoint"),
    200: sendValid("revokeWebhookEndpoint"),
    404: sendToUnknownEndpoint("revokeWebhookEndpoint"),
  },
  rotateWebhookSecret: {
    ...writeProvocations("rotateWebhookSecret"),
    200: sendValid("rotateWebhookSecret"),
    404: sendToUnknownEndpoint("rotateWebhookSecret"),
    409: sendAfterRevocation("rotateWebhookSecret"),
  },
  testWebhookEndpoint: {
    ...writeProvocations("testWebhookEndpoint"),
    202: sendValid("testWebhookEndpoint"),
    404: sendToUnknownEndpoint("testWebhookEndpoint"),
    409: sendAfterRevocation("testWebhookEndpoint"),
  },
  listWebhookDeliveries: {
    ...readProvocations("listWebhookDeliveries"),
    404: sendToUnknownEndpoint("listWebhookDeliveries"),
  },
  replayWebhookDelivery: {
    ...writeProvocations("replayWebhookDelivery"),
    202: sendValid("replayWebhookDelivery"),
    404: sendToUnknownEndpoint("replayWebhookDelivery"),
    409: sendAfterRevocation("replayWebhookDelivery"),
  },
};
