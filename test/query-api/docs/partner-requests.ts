import { randomUUID } from "node:crypto";
import { SANDBOX_LINK_CODES } from "../../../shared/domain/partner/sandbox-link-code.ts";
import type { PartnerOperationId } from "../../../shared/partner-api/operations.ts";
import { type PartnerResponse, sendRequest } from "../../support/partner.ts";
import type { Origins, PartnerContractWorld, SandboxPartner } from "./partner-world.ts";

/** A request to the sandbox environment. The path is relative to the base URL. */
export interface PartnerRequest {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: string;
  headers: Record<string, string>;
  /** Undefined if the request has no body. */
  body?: unknown;
}

type RequestFactory = (
  partner: SandboxPartner,
  world: PartnerContractWorld,
) => PartnerRequest | Promise<PartnerRequest>;

export function send({ queryOrigin, commandOrigin }: Origins, request: PartnerRequest): Promise<PartnerResponse> {
  const { method, path, headers, body } = request;
  return sendRequest(method, `${method === "GET" ? queryOrigin : commandOrigin}/sandbox/v1${path}`, headers, body);
}

/** Returns the headers of a request for the partner's clinic. */
const createClinicHeaders = (partner: SandboxPartner) => ({
  ...partner.headers,
  "X-SERVICE-Clinic-ID": partner.clinicId,
});
/** A time that is in the future of every test run. */
const scheduledAt = "2099-05-04T10:00:00Z";

export const newEndpointBody = { url: "http://127.0.0.1:9/hooks", events: ["appointment.created"] };

/** Id of the endpoint that was created last. */
let lastEndpointId: string | undefined;

/**
 * Returns the id of a new endpoint, or an unknown id if the partner may not create endpoints. Revokes the endpoint that
 * was created before, because the number of endpoints is limited.
 */
async function createEndpoint(
  partner: SandboxPartner,
  { unrestrictedPartner, origins }: PartnerContractWorld,
): Promise<string> {
  if (partner !== unrestrictedPartner) return randomUUID();
  const headers = createClinicHeaders(partner);
  if (lastEndpointId) await send(origins, { method: "DELETE", path: `/webhook-endpoints/${lastEndpointId}`, headers });
  const { body } = await send(origins, await validRequests.createWebhookEndpoint(partner, {} as never));
  lastEndpointId = body.endpoint.id;
  return body.endpoint.id;
}

/** Returns the id of a new appointment, or an unknown id if the partner may not create appointments. */
async function createAppointment(
  partner: SandboxPartner,
  { unrestrictedPartner, origins }: PartnerContractWorld,
): Promise<string> {
  if (partner !== unrestrictedPartner) return randomUUID();
  const { body } = await send(origins, await validRequests.createPartnerAppointment(partner, {} as never));
  return body.appointment.id;
}

const toLinkRequest = (partner: SandboxPartner): PartnerRequest => ({
  method: "POST",
  path: "/animal-links",
  headers: createClinicHeaders(partner),
  body: { code: SANDBOX_LINK_CODES.valid },
});

/**
 * Returns a factory of requests about links. The unrestricted partner is replaced by a new one, because generated
 * requests contain so many wrong codes that it can redeem no code afterwards.
 */
const withNewPartner =
  (createRequest: (partner: SandboxPartner, link: () => Promise<string>) => Promise<PartnerRequest>): RequestFactory =>
  async (partner, world) => {
    if (partner !== world.unrestrictedPartner) return createRequest(partner, async () => randomUUID());
    const newPartner = await world.createPartner();
    const link = async () => (await send(world.origins, toLinkRequest(newPartner))).body.link.id;
    return createRequest(newPartner, link);
  };

/** Returns a factory of requests to a new link. */
const toLink = (method: "GET" | "DELETE"): RequestFactory =>
  withNewPartner(async (partner, link) => ({
    method,
    path: `/animal-links/${await link()}`,
    headers: createClinicHeaders(partner),
  }));

/** Returns a factory of requests that change a new appointment of the partner's sandbox. */
const toNewAppointment =
  (suffix: string, body: unknown): RequestFactory =>
  async (partner, world) => ({
    method: "POST",
    path: `/appointments/${await createAppointment(partner, world)}/${suffix}`,
    headers: partner.headers,
    body,
  });

/** Returns a factory of requests to the path of a new endpoint, with a suffix. */
const toEndpoint =
  (method: PartnerRequest["method"], suffix = "", createBody?: (partner: SandboxPartner) => unknown): RequestFactory =>
  async (partner, world) => ({
    method,
    path: `/webhook-endpoints/${await createEndpoint(partner, world)}${suffix}`,
    headers: createClinicHeaders(partner),
    ...(createBody && { body: createBody(partner) }),
  });

/** Returns a factory of GET requests for the partner's clinic. */
const toClinic =
  (path: string): RequestFactory =>
  (partner) => ({ method: "GET", path, headers: createClinicHeaders(partner) });

/** Creates a request for each operation. The request succeeds if the partner is authorized. */
export const validRequests: Record<PartnerOperationId, RequestFactory> = {
  exchangeToken: ({ applicationId, clientSecret, environment }) => ({
    method: "POST",
    path: "/oauth/token",
    headers: {},
    body: {
      client_id: applicationId,
      client_secret: clientSecret,
      grant_type: "client_credentials",
      environment,
    },
  }),
  listInstallations: ({ headers }) => ({ method: "GET", path: "/installations", headers }),
  getClinicContext: toClinic("/clinic/context"),
  listPartnerAppointments: toClinic("/appointments?limit=1&from=2099-05-01T00:00:00Z"),
  createPartnerAppointment: (partner) => ({
    method: "POST",
    path: "/appointments",
    headers: { ...createClinicHeaders(partner), "Idempotency-Key": randomUUID() },
    body: { branchId: partner.branchId, animalId: partner.animalId, scheduledAt, notes: "first visit" },
  }),
  getPartnerAppointment: async (partner, world) => ({
    method: "GET",
    path: `/appointments/${await createAppointment(partner, world)}`,
    headers: createClinicHeaders(partner),
  }),
  listEvents: toClinic("/events?limit=2&wait=1"),
  linkAnimal: withNewPartner(async (partner) => toLinkRequest(partner)),
  listAnimalLinks: toClinic("/animal-links"),
  getAnimalLink: toLink("GET"),
  endAnimalLink: toLink("DELETE"),
  getSandboxState: ({ headers }) => ({ method: "GET", path: "/sandbox", headers }),
  resetSandbox: ({ headers }) => ({ method: "POST", path: "/sandbox/reset", headers }),
  changeSandboxAppointmentStatus: toNewAppointment("transitions", { to: "confirmed" }),
  rescheduleSandboxAppointment: toNewAppointment("reschedule", { scheduledAt: "2099-05-05T10:00:00Z" }),
  listWebhookEndpoints: toClinic("/webhook-endpoints"),
  createWebhookEndpoint: (partner) => ({
    method: "POST",
    path: "/webhook-endpoints",
    headers: createClinicHeaders(partner),
    body: newEndpointBody,
  }),
  getWebhookEndpoint: toEndpoint("GET"),
  updateWebhookEndpoint: toEndpoint("PATCH", "", ({ branchId }) => ({
    branchIds: [branchId],
    headers: { "X-Api-Key": "secret" },
    rateLimitPerSecond: 5,
    ordering: "appointment",
  })),
  disableWebhookEndpoint: toEndpoint("POST", "/disable"),
  enableWebhookEndpoint: async (partner, world) => ({
    method: "POST",
    path: `/webhook-endpoints/${await createEndpoint(partner, world)}/enable`,
    headers: { ...createClinicHeaders(partner), "Idempotency-Key": randomUUID() },
    body: { replaySince: "2026-01-01T00:00:00Z" },
  }),
  revokeWebhookEndpoint: toEndpoint("DELETE"),
  rotateWebhookSecret: toEndpoint("POST", "/rotate-secret"),
  testWebhookEndpoint: toEndpoint("POST", "/test"),
  listWebhookDeliveries: async (partner, world) => {
    const path = await createDeliveryPath(partner, world);
    return { method: "GET", path: path.replace(/\/[^/]+$/, ""), headers: createClinicHeaders(partner) };
  },
  getWebhookDelivery: async (partner, world) => ({
    method: "GET",
    path: await createDeliveryPath(partner, world),
    headers: createClinicHeaders(partner),
  }),
  replayWebhookDelivery: async (partner, world) => ({
    method: "POST",
    path: `${await createDeliveryPath(partner, world)}/replay`,
    headers: createClinicHeaders(partner),
  }),
  replayWebhookDeliveries: async (partner, world) => createReplayRequest(partner, await createEndpoint(partner, world)),
  getWebhookReplay: async (partner, world) => {
    const endpointId = await createEndpoint(partner, world);
    const request = createReplayRequest(partner, endpointId);
    const isUnrestricted = partner === world.unrestrictedPartner;
    const replayId = isUnrestricted ? (await send(world.origins, request)).body.replay.id : randomUUID();
    return { method: "GET", headers: createClinicHeaders(partner), path: `${request.path}/${replayId}` };
  },
};

function createReplayRequest(partner: SandboxPartner, endpointId: string): PartnerRequest {
  return {
    method: "POST",
    path: `/webhook-endpoints/${endpointId}/replays`,
    headers: { ...createClinicHeaders(partner), "Idempotency-Key": randomUUID() },
    body: { since: "2026-01-01T00:00:00Z" },
  };
}

/** Returns the path of a new failed delivery, or of an unknown delivery if the partner may not create endpoints. */
async function createDeliveryPath(partner: SandboxPartner, world: PartnerContractWorld): Promise<string> {
  const endpointId = await createEndpoint(partner, world);
  const isUnrestricted = partner === world.unrestrictedPartner;
  const deliveryId = isUnrestricted ? await world.createFailedDelivery(partner, endpointId) : randomUUID();
  return `/webhook-endpoints/${endpointId}/deliveries/${deliveryId}`;
}
