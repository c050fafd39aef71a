import { randomUUID } from "node:crypto";
import {
  type PartnerOperation,
  type PartnerOperationId,
  partnerOperations,
} from "../../../shared/partner-api/operations.ts";
import { MAX_APPLICATION_REQUESTS_PER_MINUTE } from "../../../shared/partner-api/rate-limits.ts";
import { eventually } from "../../support/eventually.ts";
import type { PartnerResponse } from "../../support/partner.ts";
import { newEndpointBody, operationsWithBody, type PartnerRequest, send, validRequests } from "./partner-requests.ts";
import type { PartnerContractWorld } from "./partner-world.ts";

/** Sends a real request whose response has a certain status. */
export type StatusTrigger = (world: PartnerContractWorld) => Promise<PartnerResponse>;

/** Functions by HTTP status. Each function provokes a response with its status. */
type StatusTriggers = Record<number, StatusTrigger>;

/** Changes a valid request and sends it. */
function createChangeTrigger(
  id: PartnerOperationId,
  change: (request: PartnerRequest) => Partial<PartnerRequest>,
): StatusTrigger {
  return async (world) => {
    const request = await validRequests[id](world.unrestrictedPartner, world);
    return send(world.origins, { ...request, ...change(request) });
  };
}

const createHeaderTrigger = (id: PartnerOperationId, name: string, value: string) =>
  createChangeTrigger(id, ({ headers }) => ({ headers: { ...headers, [name]: value } }));

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
    401: createChangeTrigger(id, ({ headers: { Authorization: _, ...headers } }) => ({ headers })),
    403: requiresSandbox
      ? async (world) =>
          send(world.origins, {
            ...(await validRequests[id](world.unrestrictedPartner, world)),
            headers: world.clinicScopePartner.headers,
          })
      : createHeaderTrigger(id, "X-SERVICE-Clinic-ID", "none"),
  };
}

function createReadTriggers(id: PartnerOperationId): StatusTriggers {
  return {
    ...createCommonTriggers(id),
    ...createAccessTriggers(id),
    200: createChangeTrigger(id, () => ({})),
    400: createHeaderTrigger(id, "X-SERVICE-Log-Position", "here"),
  };
}

function createWriteTriggers(id: PartnerOperationId): StatusTriggers {
  return { ...createCommonTriggers(id), ...createAccessTriggers(id) };
}

function createInvalidBodyTriggers(id: PartnerOperationId): StatusTriggers {
  if (!(operationsWithBody as readonly string[]).includes(id)) return {};
  return {
    400: createChangeTrigger(id, () => ({ body: "{" })),
    413: createChangeTrigger(id, () => ({ body: JSON.stringify("x".repeat(70_000)) })),
    415: createHeaderTrigger(id, "Content-Type", "text/plain"),
  };
}

/** Sends a request with the id of an endpoint that does not exist. */
const createUnknownEndpointTrigger = (id: PartnerOperationId) =>
  createChangeTrigger(id, ({ path }) => ({ path: path.replace(/endpoints\/[^/]+/, `endpoints/${randomUUID()}`) }));

/** Revokes the endpoint of a request, and then sends the request. */
const createRevocationTrigger =
  (id: PartnerOperationId): StatusTrigger =>
  async (world) => {
    const request = await validRequests[id](world.unrestrictedPartner, world);
    const path = /^\/webhook-endpoints\/[^/]+/.exec(request.path)?.[0] ?? "";
    const { status } = await send(world.origins, { ...request, method: "DELETE", path });
    if (status !== 200) throw new Error(`Revoking the endpoint returned ${status}.`);
    return send(world.origins, request);
  };

const createValidTrigger = (id: PartnerOperationId) => createChangeTrigger(id, () => ({}));

/** Sends a read whose object was just created, and waits until the read models contain it. */
const createReadAfterWriteTrigger =
  (id: PartnerOperationId): StatusTrigger =>
  async (world) => {
    const request = await validRequests[id](world.unrestrictedPartner, world);
    return eventually("the object", async () => {
      const response = await send(world.origins, request);
      return response.status !== 404 && response;
    });
  };

/** Sends a request with a token that lacks the operation's scope. */
const createNarrowTokenTrigger =
  (id: PartnerOperationId): StatusTrigger =>
  async (world) => {
    const tokenRequest = await validRequests.exchangeToken(world.unrestrictedPartner, world);
    const requestBody = { ...(tokenRequest.body as object), scope: "webhooks:read" };
    const { body } = await send(world.origins, { ...tokenRequest, body: requestBody });
    const request = await validRequests[id](world.unrestrictedPartner, world);
    return send(world.origins, { ...request, headers: { Authorization: `Bearer ${body.access_token}` } });
  };

/** Functions by operation and documented status. Each function provokes a response with its status. */
export const statusTriggers: Record<PartnerOperationId, StatusTriggers> = {
  exchangeToken: {
    ...createCommonTriggers("exchangeToken"),
    ...createInvalidBodyTriggers("exchangeToken"),
    200: createValidTrigger("exchangeToken"),
    401: createChangeTrigger("exchangeToken", ({ body }) => ({
      body: { ...(body as object), client_secret: "wrong" },
    })),
  },
  listInstallations: {
    ...createReadTriggers("listInstallations"),
    403: createNarrowTokenTrigger("listInstallations"),
    429: async (world) => {
      const request = await validRequests.listInstallations(world.rateLimitedPartner, world);
      const requests = Array.from({ length: MAX_APPLICATION_REQUESTS_PER_MINUTE + 1 }, () =>
        send(world.origins, request),
      );
      const responses = await Promise.all(requests);
      return responses.find(({ status }) => status === 429) ?? responses[0]!;
    },
  },
  getClinicContext: createReadTriggers("getClinicContext"),
  listPartnerAppointments: {
    ...createReadTriggers("listPartnerAppointments"),
    200: async (world) => {
      for (let count = 0; count < 2; count += 1) {
        await send(world.origins, await validRequests.createPartnerAppointment(world.unrestrictedPartner, world));
      }
      return createValidTrigger("listPartnerAppointments")(world);
    },
    400: createChangeTrigger("listPartnerAppointments", ({ path }) => ({ path: `${path}&cursor=nowhere` })),
  },
  createPartnerAppointment: {
    ...createWriteTriggers("createPartnerAppointment"),
    ...createInvalidBodyTriggers("createPartnerAppointment"),
    201: createValidTrigger("createPartnerAppointment"),
    409: async (world) => {
      const request = await validRequests.createPartnerAppointment(world.unrestrictedPartner, world);
      await send(world.origins, request);
      return send(world.origins, { ...request, body: { ...(request.body as object), notes: "another" } });
    },
    422: createChangeTrigger("createPartnerAppointment", ({ body }) => ({
      body: { ...(body as object), branchId: randomUUID() },
    })),
  },
  getSandboxState: createReadTriggers("getSandboxState"),
  resetSandbox: { ...createWriteTriggers("resetSandbox"), 200: createValidTrigger("resetSandbox") },
  listWebhookEndpoints: {
    ...createReadTriggers("listWebhookEndpoints"),
    200: async (world) => {
      await createValidTrigger("createWebhookEndpoint")(world);
      return createValidTrigger("listWebhookEndpoints")(world);
    },
  },
  createWebhookEndpoint: {
    ...createWriteTriggers("createWebhookEndpoint"),
    ...createInvalidBodyTriggers("createWebhookEndpoint"),
    201: createValidTrigger("createWebhookEndpoint"),
    400: createChangeTrigger("createWebhookEndpoint", () => ({
      body: { ...newEndpointBody, url: "https://10.0.0.1/" },
    })),
    409: async (world) => {
      const partner = await world.createPartner();
      await world.useUpEndpointQuota(partner);
      return send(world.origins, await validRequests.createWebhookEndpoint(partner, world));
    },
  },
  getWebhookEndpoint: {
    ...createReadTriggers("getWebhookEndpoint"),
    200: createReadAfterWriteTrigger("getWebhookEndpoint"),
    404: createUnknownEndpointTrigger("getWebhookEndpoint"),
  },
  updateWebhookEndpoint: {
    ...createWriteTriggers("updateWebhookEndpoint"),
    ...createInvalidBodyTriggers("updateWebhookEndpoint"),
    200: createValidTrigger("updateWebhookEndpoint"),
    400: createChangeTrigger("updateWebhookEndpoint", () => ({ body: { url: "https://10.0.0.1/" } })),
    404: createUnknownEndpointTrigger("updateWebhookEndpoint"),
    409: createRevocationTrigger("updateWebhookEndpoint"),
  },
  disableWebhookEndpoint: {
    ...createWriteTriggers("disableWebhookEndpoint"),
    200: createValidTrigger("disableWebhookEndpoint"),
    404: createUnknownEndpointTrigger("disableWebhookEndpoint"),
    409: createRevocationTrigger("disableWebhookEndpoint"),
  },
  enableWebhookEndpoint: {
    ...createWriteTriggers("enableWebhookEndpoint"),
    200: createValidTrigger("enableWebhookEndpoint"),
    404: createUnknownEndpointTrigger("enableWebhookEndpoint"),
    409: createRevocationTrigger("enableWebhookEndpoint"),
  },
  revokeWebhookEndpoint: {
    ...createWriteTriggers("revokeWebhookEndpoint"),
    200: createValidTrigger("revokeWebhookEndpoint"),
    404: createUnknownEndpointTrigger("revokeWebhookEndpoint"),
  },
  rotateWebhookSecret: {
    ...createWriteTriggers("rotateWebhookSecret"),
    200: createValidTrigger("rotateWebhookSecret"),
    404: createUnknownEndpointTrigger("rotateWebhookSecret"),
    409: createRevocationTrigger("rotateWebhookSecret"),
  },
  testWebhookEndpoint: {
    ...createWriteTriggers("testWebhookEndpoint"),
    202: createValidTrigger("testWebhookEndpoint"),
    404: createUnknownEndpointTrigger("testWebhookEndpoint"),
    409: createRevocationTrigger("testWebhookEndpoint"),
  },
  listWebhookDeliveries: {
    ...createReadTriggers("listWebhookDeliveries"),
    404: createUnknownEndpointTrigger("listWebhookDeliveries"),
  },
  getWebhookDelivery: {
    ...createReadTriggers("getWebhookDelivery"),
    200: createReadAfterWriteTrigger("getWebhookDelivery"),
    404: createUnknownEndpointTrigger("getWebhookDelivery"),
  },
  replayWebhookDelivery: {
    ...createWriteTriggers("replayWebhookDelivery"),
    202: createValidTrigger("replayWebhookDelivery"),
    404: createUnknownEndpointTrigger("replayWebhookDelivery"),
    409: createRevocationTrigger("replayWebhookDelivery"),
  },
  replayWebhookDeliveries: {
    ...createWriteTriggers("replayWebhookDeliveries"),
    ...createInvalidBodyTriggers("replayWebhookDeliveries"),
    202: createValidTrigger("replayWebhookDeliveries"),
    400: createChangeTrigger("replayWebhookDeliveries", () => ({ body: { since: "yesterday" } })),
    404: createUnknownEndpointTrigger("replayWebhookDeliveries"),
    409: createRevocationTrigger("replayWebhookDeliveries"),
  },
  getWebhookReplay: {
    ...createReadTriggers("getWebhookReplay"),
    200: createReadAfterWriteTrigger("getWebhookReplay"),
    404: createUnknownEndpointTrigger("getWebhookReplay"),
  },
};
