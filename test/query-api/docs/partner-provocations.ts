import { randomUUID } from "node:crypto";
import { formatEventCursor } from "../../../query-api/partner/cursor.ts";
import {
  type PartnerOperation,
  type PartnerOperationId,
  partnerOperations,
} from "../../../shared/partner-api/operations.ts";
import { MAX_APPLICATION_REQUESTS_PER_MINUTE } from "../../../shared/partner-api/rate-limits.ts";
import { type PartnerWrite, partnerWrites } from "../../../shared/partner-api/writes.ts";
import { eventually } from "../../support/eventually.ts";
import type { PartnerResponse } from "../../support/partner.ts";
import { validRequests } from "./partner-requests.ts";
import type { PartnerContractWorld } from "./partner-world.ts";
import { type PartnerRequest, send } from "./sandbox-request.ts";

/** Sends a real request that provokes one HTTP status. */
export type StatusTrigger = (world: PartnerContractWorld) => Promise<PartnerResponse>;

/** Triggers by the HTTP status that they provoke. */
type StatusTriggers = Record<number, StatusTrigger>;

/** Creates a trigger that sends a valid request with changes. */
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

const hasInstallation = (id: PartnerOperationId) => {
  const { requiresClinic, requiresSandbox, scope }: PartnerOperation = partnerOperations[id];
  return scope === null || requiresClinic || requiresSandbox;
};

/** Creates the triggers for statuses that every operation can return. */
const createCommonTriggers = (id: PartnerOperationId): StatusTriggers => ({
  429: async (world) => {
    const request = await validRequests[id](world.rateLimitedPartner, world);
    const count = hasInstallation(id) ? 2 : MAX_APPLICATION_REQUESTS_PER_MINUTE + 1;
    return eventually("429", async () => {
      const responses = await Promise.all(Array.from({ length: count }, () => send(world.origins, request)));
      return responses.find(({ status }) => status === 429);
    });
  },
  500: async (world) => send(world.damagedOrigins, await validRequests[id](world.damagedPartner, world)),
  503: async (world) => send(world.originsWithoutServers, await validRequests[id](world.unrestrictedPartner, world)),
});

/** Creates the triggers for the access check: 401 and 403. */
function createAccessTriggers(id: PartnerOperationId): StatusTriggers {
  const { requiresSandbox }: PartnerOperation = partnerOperations[id];
  return {
    401: createChangeTrigger(id, ({ headers: { Authorization: _, ...headers } }) => ({ headers })),
    403:
      requiresSandbox || (!hasInstallation(id) && id !== "listInstallations")
        ? async (world) =>
            send(world.origins, {
              ...(await validRequests[id](world.unrestrictedPartner, world)),
              headers: world.clinicScopePartner.headers,
            })
        : createHeaderTrigger(id, "X-SERVICE-Clinic-ID", "none"),
  };
}

/** Creates a trigger that uses an unknown id in the path. */
const createUnknownIdTrigger = (id: PartnerOperationId) =>
  createChangeTrigger(id, ({ path }) => ({ path: path.replace(/^(\/[^/]+\/)[^/?]+/, `$1${randomUUID()}`) }));

/** Creates a trigger that first revokes the endpoint of its request. */
const createRevocationTrigger =
  (id: PartnerOperationId): StatusTrigger =>
  async (world) => {
    const request = await validRequests[id](world.unrestrictedPartner, world);
    const path = /^\/webhook-endpoints\/[^/]+/.exec(request.path)?.[0] ?? "";
    const { status } = await send(world.origins, { ...request, method: "DELETE", path });
    if (status !== 200) throw new Error(`Revoking the endpoint returned ${status}.`);
    return send(world.origins, request);
  };

/** Creates a trigger that first deletes the partner's sandbox permanently. */
function createDeletedSandboxTrigger(id: PartnerOperationId): StatusTrigger {
  return async (world) => {
    const partner = await world.createPartner();
    const ownWorld = { ...world, unrestrictedPartner: partner, createPartner: async () => partner };
    const request = await validRequests[id](partner, ownWorld);
    await world.tombstoneSandbox(partner);
    return send(world.origins, request);
  };
}

const createValidTrigger = (id: PartnerOperationId) => createChangeTrigger(id, () => ({}));

/** Creates the triggers for all statuses that follow from an operation's declaration. */
function createDeclaredTriggers(id: PartnerOperationId): StatusTriggers {
  const { path, scope }: PartnerOperation = partnerOperations[id];
  const write: PartnerWrite | undefined = (partnerWrites as Partial<Record<PartnerOperationId, PartnerWrite>>)[id];
  const refusals: PartnerWrite["refusals"] = write?.refusals ?? {};
  return {
    ...createCommonTriggers(id),
    ...(scope && createAccessTriggers(id)),
    [write?.successResponse.status ?? 200]: createValidTrigger(id),
    ...(!write && { 400: createHeaderTrigger(id, "X-SERVICE-Log-Position", "here") }),
    ...(write?.request && {
      400: createChangeTrigger(id, () => ({ body: "{" })),
      413: createChangeTrigger(id, () => ({ body: JSON.stringify("x".repeat(70_000)) })),
      415: createHeaderTrigger(id, "Content-Type", "text/plain"),
    }),
    ...(path.includes(":") && { 404: createUnknownIdTrigger(id) }),
    ...((refusals.webhook_endpoint_revoked || refusals.delivery_not_replayable) && {
      409: createRevocationTrigger(id),
    }),
  };
}

/** Creates a trigger that reads a new object. Retries until the read models contain it. */
const createReadAfterWriteTrigger =
  (id: PartnerOperationId): StatusTrigger =>
  async (world) => {
    const request = await validRequests[id](world.unrestrictedPartner, world);
    return eventually("the object", async () => {
      const response = await send(world.origins, request);
      return response.status !== 404 && response.status !== 503 && response;
    });
  };

/** Creates a trigger whose token lacks the operation's scope. */
const createNarrowTokenTrigger =
  (id: PartnerOperationId): StatusTrigger =>
  async (world) => {
    const tokenRequest = await validRequests.exchangeToken(world.unrestrictedPartner, world);
    const requestBody = { ...(tokenRequest.body as object), scope: "webhooks:read" };
    const { body } = await send(world.origins, { ...tokenRequest, body: requestBody });
    const request = await validRequests[id](world.unrestrictedPartner, world);
    return send(world.origins, { ...request, headers: { Authorization: `Bearer ${body.access_token}` } });
  };

/** Triggers that supplement or replace those of an operation's declaration. */
const furtherTriggers: Partial<Record<PartnerOperationId, StatusTriggers>> = {
  exchangeToken: {
    401: createChangeTrigger("exchangeToken", ({ body }) => ({
      body: { ...(body as object), client_secret: "wrong" },
    })),
  },
  listInstallations: {
    403: createNarrowTokenTrigger("listInstallations"),
  },
  listPartnerAppointments: {
    200: async (world) => {
      for (let count = 0; count < 2; count += 1)
        await send(world.origins, await validRequests.createPartnerAppointment(world.unrestrictedPartner, world));
      return createValidTrigger("listPartnerAppointments")(world);
    },
    400: createChangeTrigger("listPartnerAppointments", ({ path }) => ({ path: `${path}&cursor=nowhere` })),
    422: createChangeTrigger("listPartnerAppointments", () => {
      const [eventId, subjectId] = [randomUUID(), randomUUID()];
      const cursor = formatEventCursor({ position: "1", eventId, subjectId, memory: "" });
      return { path: `/appointments?updatedSince=${cursor}` };
    }),
  },
  createPartnerAppointment: {
    409: async (world) => {
      const request = await validRequests.createPartnerAppointment(world.unrestrictedPartner, world);
      await send(world.origins, request);
      return send(world.origins, { ...request, body: { ...(request.body as object), notes: "another" } });
    },
    422: createChangeTrigger("createPartnerAppointment", ({ body }) => ({
      body: { ...(body as object), branchId: randomUUID() },
    })),
  },
  getPartnerAppointment: {
    200: createReadAfterWriteTrigger("getPartnerAppointment"),
  },
  listEvents: {
    400: createChangeTrigger("listEvents", () => ({ path: "/events?after=nowhere" })),
    422: createChangeTrigger("listEvents", () => ({
      path: `/events?after=${formatEventCursor({ position: "1", eventId: randomUUID(), subjectId: randomUUID(), memory: "" })}`,
    })),
  },
  // The body is malformed, because the number of wrong codes is limited.
  linkAnimal: {
    409: createDeletedSandboxTrigger("linkAnimal"),
    422: createChangeTrigger("linkAnimal", () => ({ body: { code: "" } })),
  },
  getAnimalLink: {
    200: createReadAfterWriteTrigger("getAnimalLink"),
  },
  endAnimalLink: {
    409: createDeletedSandboxTrigger("endAnimalLink"),
  },
  withdrawSandboxLink: {
    409: createDeletedSandboxTrigger("withdrawSandboxLink"),
    422: createChangeTrigger("withdrawSandboxLink", () => ({ body: { requestedBy: "application" } })),
  },
  changeSandboxAccess: {
    409: createDeletedSandboxTrigger("changeSandboxAccess"),
    422: createChangeTrigger("changeSandboxAccess", () => ({ body: { animalAccess: "some", branchIds: [] } })),
  },
  createWebhookEndpoint: {
    400: createChangeTrigger("createWebhookEndpoint", ({ body }) => ({
      body: { ...(body as object), url: "https://10.0.0.1/" },
    })),
    409: async (world) => {
      const partner = await world.createPartner();
      await world.useUpEndpointQuotas(partner);
      return send(world.origins, await validRequests.createWebhookEndpoint(partner, world));
    },
  },
  getWebhookEndpoint: { 200: createReadAfterWriteTrigger("getWebhookEndpoint") },
  updateWebhookEndpoint: {
    400: createChangeTrigger("updateWebhookEndpoint", () => ({ body: { url: "https://10.0.0.1/" } })),
  },
  getWebhookDelivery: { 200: createReadAfterWriteTrigger("getWebhookDelivery") },
  replayWebhookDeliveries: {
    400: createChangeTrigger("replayWebhookDeliveries", () => ({ body: { since: "yesterday" } })),
  },
  getWebhookReplay: { 200: createReadAfterWriteTrigger("getWebhookReplay") },
  resetSandbox: { 409: createDeletedSandboxTrigger("resetSandbox") },
  changeSandboxAppointmentStatus: {
    409: createChangeTrigger("changeSandboxAppointmentStatus", () => ({ body: { to: "completed" } })),
    422: createChangeTrigger("changeSandboxAppointmentStatus", () => ({ body: { to: "requested" } })),
  },
  rescheduleSandboxAppointment: {
    409: async (world) => {
      const request = await validRequests.rescheduleSandboxAppointment(world.unrestrictedPartner, world);
      const path = request.path.replace("reschedule", "transitions");
      await send(world.origins, { ...request, path, body: { to: "cancelled" } });
      return send(world.origins, request);
    },
    422: createChangeTrigger("rescheduleSandboxAppointment", () => ({ body: { scheduledAt: "2020-01-01T00:00:00Z" } })),
  },
};

/** Triggers by operation and by the HTTP status that they provoke. */
export const statusTriggers = Object.fromEntries(
  (Object.keys(partnerOperations) as PartnerOperationId[]).map((id) => [
    id,
    { ...createDeclaredTriggers(id), ...furtherTriggers[id] },
  ]),
) as Record<PartnerOperationId, StatusTriggers>;
