import { randomUUID } from "node:crypto";
import type { EndpointOperationId } from "../../../shared/partner-api/operations.ts";
import type { PartnerResponse } from "../../support/partner.ts";
import type { Origins, PartnerContractWorld, SandboxPartner } from "./partner-world.ts";
import { createClinicHeaders, type PartnerRequest, type RequestFactory, send } from "./sandbox-request.ts";

/** Owner of endpoints: the application, or the application at its clinic. */
interface EndpointOwner {
  /** Path of the list of endpoints. */
  path: string;
  createHeaders(partner: SandboxPartner): Record<string, string>;
  newEndpointBody: { url: string; events: string[] };
  createChanges(partner: SandboxPartner): object;
  /** Returns the clinic of the endpoint's deliveries; null without a clinic. */
  getClinicId(partner: SandboxPartner): string | null;
}

const url = "http://127.0.0.1:9/hooks";
const changes = { headers: { "X-Api-Key": "secret" }, rateLimitPerSecond: 5 };

export const clinicOwner: EndpointOwner = {
  path: "/webhook-endpoints",
  createHeaders: (partner) => createClinicHeaders(partner),
  newEndpointBody: { url, events: ["appointment.created"] },
  createChanges: ({ branchId }) => ({ ...changes, branchIds: [branchId], ordering: "appointment" }),
  getClinicId: ({ clinicId }) => clinicId,
};

export const applicationOwner: EndpointOwner = {
  path: "/application/webhook-endpoints",
  createHeaders: ({ headers }) => headers,
  newEndpointBody: { url, events: ["installation.approved"] },
  createChanges: () => ({ ...changes, events: ["installation.revoked"] }),
  getClinicId: () => null,
};

/** Creates a factory of valid requests for each operation on an owner's endpoints. */
export function createEndpointRequests(owner: EndpointOwner): Record<EndpointOperationId, RequestFactory> {
  const { createHeaders } = owner;
  const toCreation: RequestFactory = (partner) => ({
    method: "POST",
    path: owner.path,
    headers: createHeaders(partner),
    body: owner.newEndpointBody,
  });
  let lastEndpointId: string | undefined;
  /** Log position of the last write, so that reads reflect it. */
  let position = "0";
  const createReadHeaders = (partner: SandboxPartner) => ({
    ...createHeaders(partner),
    "X-SERVICE-Log-Position": position,
  });

  async function write(origins: Origins, request: PartnerRequest): Promise<PartnerResponse> {
    const response = await send(origins, request);
    position = response.headers.get("X-SERVICE-Log-Position") ?? position;
    return response;
  }

  /**
   * Returns the path of a new endpoint. Revokes the previous one, because the number of endpoints is limited. Only the
   * unrestricted partner may create endpoints; for other partners, returns the path of an unknown endpoint.
   */
  async function createEndpoint(partner: SandboxPartner, world: PartnerContractWorld): Promise<string> {
    if (partner !== world.unrestrictedPartner) return `${owner.path}/${randomUUID()}`;
    const { origins } = world;
    const headers = createHeaders(partner);
    if (lastEndpointId) await send(origins, { method: "DELETE", path: `${owner.path}/${lastEndpointId}`, headers });
    const { body } = await write(origins, await toCreation(partner, world));
    lastEndpointId = body.endpoint.id;
    return `${owner.path}/${lastEndpointId}`;
  }

  /** Returns the path of a new failed delivery; for a restricted partner, the path of an unknown delivery. */
  async function createDelivery(partner: SandboxPartner, world: PartnerContractWorld): Promise<string> {
    const endpointPath = await createEndpoint(partner, world);
    const isUnrestricted = partner === world.unrestrictedPartner;
    const endpointId = endpointPath.split("/").at(-1) ?? "";
    const deliveryOwner = { ...partner, clinicId: owner.getClinicId(partner) };
    const deliveryId = isUnrestricted ? await world.createFailedDelivery(deliveryOwner, endpointId) : randomUUID();
    return `${endpointPath}/deliveries/${deliveryId}`;
  }

  /** Returns a factory of requests about a new endpoint. @param suffix end of the path */
  const toEndpoint =
    (
      method: PartnerRequest["method"],
      suffix = "",
      createBody?: (partner: SandboxPartner) => unknown,
    ): RequestFactory =>
    async (partner, world) => ({
      method,
      path: `${await createEndpoint(partner, world)}${suffix}`,
      headers: { ...createReadHeaders(partner), ...(method === "POST" && { "Idempotency-Key": randomUUID() }) },
      ...(createBody && { body: createBody(partner) }),
    });

  const toReplays = toEndpoint("POST", "/replays", () => ({ since: "2026-01-01T00:00:00Z" }));
  return {
    listWebhookEndpoints: async (partner, world) => ({
      ...(await toEndpoint("GET")(partner, world)),
      path: owner.path,
    }),
    createWebhookEndpoint: toCreation,
    getWebhookEndpoint: toEndpoint("GET"),
    updateWebhookEndpoint: toEndpoint("PATCH", "", owner.createChanges),
    disableWebhookEndpoint: toEndpoint("POST", "/disable"),
    enableWebhookEndpoint: toEndpoint("POST", "/enable", () => ({ replaySince: "2026-01-01T00:00:00Z" })),
    revokeWebhookEndpoint: toEndpoint("DELETE"),
    rotateWebhookSecret: toEndpoint("POST", "/rotate-secret"),
    testWebhookEndpoint: toEndpoint("POST", "/test"),
    listWebhookDeliveries: async (partner, world) => {
      const path = await createDelivery(partner, world);
      return { method: "GET", path: path.replace(/\/[^/]+$/, ""), headers: createReadHeaders(partner) };
    },
    getWebhookDelivery: async (partner, world) => ({
      method: "GET",
      path: await createDelivery(partner, world),
      headers: createReadHeaders(partner),
    }),
    replayWebhookDelivery: async (partner, world) => ({
      method: "POST",
      path: `${await createDelivery(partner, world)}/replay`,
      headers: createReadHeaders(partner),
    }),
    replayWebhookDeliveries: toReplays,
    getWebhookReplay: async (partner, world) => {
      const request = await toReplays(partner, world);
      const isUnrestricted = partner === world.unrestrictedPartner;
      const replayId = isUnrestricted ? (await write(world.origins, request)).body.replay.id : randomUUID();
      return { method: "GET", headers: createReadHeaders(partner), path: `${request.path}/${replayId}` };
    },
  };
}
