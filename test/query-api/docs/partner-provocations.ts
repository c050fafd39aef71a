import { randomUUID } from "node:crypto";
import {
  type PartnerOperation,
  type PartnerOperationId,
  partnerOperations,
} from "../../../shared/partner-api/operations.ts";
import { eventually } from "../../support/eventually.ts";
import type { PartnerAnswer } from "../../support/partner.ts";
import { goodRequests, newEndpoint, type PartnerRequest, send, withBody } from "./partner-requests.ts";
import type { PartnerContractWorld } from "./partner-world.ts";

/** Sends a real request whose response has a certain status. */
export type Provoke = (world: PartnerContractWorld) => Promise<PartnerAnswer>;

/** Functions that provoke a response, by its status. */
type Provocations = Record<number, Provoke>;

/** Sends a valid request after a change. */
function changed(
  id: PartnerOperationId,
  change: (request: PartnerRequest) => Partial<PartnerRequest>,
): Provoke {
  return async (world) => {
    const request = await goodRequests[id](world.good, world);
    return send(world.origins, { ...request, ...change(request) });
  };
}

const withHeader = (id: PartnerOperationId, name: string, value: string) =>
  changed(id, ({ headers }) => ({ headers: { ...headers, [name]: value } }));

/** Provokes the statuses that every operation can return. */
function ofAll(id: PartnerOperationId): Provocations {
  const good = async (world: PartnerContractWorld, who: "good" | "limited" | "garbled") =>
    goodRequests[id](world[who], world);
  return {
    429: async (world) => {
      const request = await good(world, "limited");
      return eventually("429", async () => {
        const answer = await send(world.origins, request);
        return answer.status === 429 && answer;
      });
    },
    500: async (world) => send(world.garbledOrigins, await good(world, "garbled")),
    503: async (world) => send(world.cutOff, await good(world, "good")),
  };
}

/** Provokes the statuses of the access check. */
function ofAccess(id: PartnerOperationId): Provocations {
  const { sandbox }: PartnerOperation = partnerOperations[id];
  return {
    401: changed(id, ({ headers: { Authorization: _, ...headers } }) => ({ headers })),
    403: sandbox
      ? async (world) =>
          send(world.origins, {
            ...(await goodRequests[id](world.good, world)),
            headers: world.narrow.headers,
          })
      : withHeader(id, "X-SERVICE-Clinic-ID", "none"),
  };
}

function ofRead(id: PartnerOperationId): Provocations {
  return {
    ...ofAll(id),
    ...ofAccess(id),
    200: changed(id, () => ({})),
    400: withHeader(id, "X-SERVICE-Log-Position", "here"),
  };
}

function ofWrite(id: PartnerOperationId): Provocations {
  return { ...ofAll(id), ...ofAccess(id) };
}

function ofBody(id: PartnerOperationId): Provocations {
  if (!(withBody as readonly string[]).includes(id)) return {};
  return {
    400: changed(id, () => ({ body: "{" })),
    413: changed(id, () => ({ body: JSON.stringify("x".repeat(70_000)) })),
    415: withHeader(id, "Content-Type", "text/plain"),
  };
}

/** Sends a request with the id of an endpoint that does not exist. */
const unknownEndpoint = (id: PartnerOperationId) =>
  changed(id, ({ path }) => ({ path: path.replace(/endpoints\/[^/]+/, `endpoints/${randomUUID()}`) }));

/** Revokes the endpoint of a request, and then sends the request. */
const afterRevocation =
  (id: PartnerOperationId): Provoke =>
  async (world) => {
    const request = await goodRequests[id](world.good, world);
    const path = /^\/webhook-endpoints\/[^/]+/.exec(request.path)?.[0] ?? "";
    const { status } = await send(world.origins, { ...request, method: "DELETE", path });
    if (status !== 200) throw new Error(`Revoking the endpoint returned ${status}.`);
    return send(world.origins, request);
  };

const success = (id: PartnerOperationId) => changed(id, () => ({}));

/** For each operation, a request that provokes each documented status. */
export const provocations: Record<PartnerOperationId, Provocations> = {
  exchangeToken: {
    ...ofAll("exchangeToken"),
    ...ofBody("exchangeToken"),
    200: success("exchangeToken"),
    401: changed("exchangeToken", ({ body }) => ({ body: { ...(body as object), client_secret: "wrong" } })),
  },
  getClinicContext: ofRead("getClinicContext"),
  listPartnerAppointments: {
    ...ofRead("listPartnerAppointments"),
    200: async (world) => {
      for (let made = 0; made < 2; made += 1) {
        await send(world.origins, await goodRequests.createPartnerAppointment(world.good, world));
      }
      return success("listPartnerAppointments")(world);
    },
    400: changed("listPartnerAppointments", ({ path }) => ({ path: `${path}&cursor=nowhere` })),
  },
  createPartnerAppointment: {
    ...ofWrite("createPartnerAppointment"),
    ...ofBody("createPartnerAppointment"),
    201: success("createPartnerAppointment"),
    409: async (world) => {
      const request = await goodRequests.createPartnerAppointment(world.good, world);
      await send(world.origins, request);
      return send(world.origins, { ...request, body: { ...(request.body as object), notes: "another" } });
    },
    422: changed("createPartnerAppointment", ({ body }) => ({
      body: { ...(body as object), branchId: randomUUID() },
    })),
  },
  getSandboxState: ofRead("getSandboxState"),
  resetSandbox: { ...ofWrite("resetSandbox"), 200: success("resetSandbox") },
  listWebhookEndpoints: {
    ...ofRead("listWebhookEndpoints"),
    200: async (world) => {
      await success("createWebhookEndpoint")(world);
      return success("listWebhookEndpoints")(world);
    },
  },
  createWebhookEndpoint: {
    ...ofWrite("createWebhookEndpoint"),
    ...ofBody("createWebhookEndpoint"),
    201: success("createWebhookEndpoint"),
    400: changed("createWebhookEndpoint", () => ({ body: { ...newEndpoint, url: "https://10.0.0.1/" } })),
    409: async (world) => {
      const partner = await world.anotherPartner();
      await world.takeAllPlaces(partner);
      return send(world.origins, await goodRequests.createWebhookEndpoint(partner, world));
    },
  },
  revokeWebhookEndpoint: {
    ...ofWrite("revokeWebhookEndpoint"),
    200: success("revokeWebhookEndpoint"),
    404: unknownEndpoint("revokeWebhookEndpoint"),
  },
  rotateWebhookSecret: {
    ...ofWrite("rotateWebhookSecret"),
    200: success("rotateWebhookSecret"),
    404: unknownEndpoint("rotateWebhookSecret"),
    409: afterRevocation("rotateWebhookSecret"),
  },
  testWebhookEndpoint: {
    ...ofWrite("testWebhookEndpoint"),
    202: success("testWebhookEndpoint"),
    404: unknownEndpoint("testWebhookEndpoint"),
    409: afterRevocation("testWebhookEndpoint"),
  },
  listWebhookDeliveries: {
    ...ofRead("listWebhookDeliveries"),
    404: unknownEndpoint("listWebhookDeliveries"),
  },
  replayWebhookDelivery: {
    ...ofWrite("replayWebhookDelivery"),
    202: success("replayWebhookDelivery"),
    404: unknownEndpoint("replayWebhookDelivery"),
    409: afterRevocation("replayWebhookDelivery"),
  },
};
