import { randomUUID } from "node:crypto";
import { SANDBOX_LINK_CODES } from "../../../shared/domain/partner/sandbox-link-code.ts";
import type { PartnerOperationId } from "../../../shared/partner-api/operations.ts";
import { applicationOwner, clinicOwner, createEndpointRequests } from "./endpoint-requests.ts";
import type { PartnerContractWorld, SandboxPartner } from "./partner-world.ts";
import { createClinicHeaders, type PartnerRequest, type RequestFactory, send } from "./sandbox-request.ts";

/** A time that is in the future of every test run. */
const scheduledAt = "2099-05-04T10:00:00Z";

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
 * Returns a factory of requests about animal links. Instead of the unrestricted partner, uses a new partner: the many
 * wrong codes in generated requests would prevent the unrestricted partner from redeeming a code.
 */
const withNewPartner =
  (createRequest: (partner: SandboxPartner, link: () => Promise<string>) => Promise<PartnerRequest>): RequestFactory =>
  async (partner, world) => {
    if (partner !== world.unrestrictedPartner) return createRequest(partner, async () => randomUUID());
    const newPartner = await world.createPartner();
    const link = async () => (await send(world.origins, toLinkRequest(newPartner))).body.link.id;
    return createRequest(newPartner, link);
  };

/** Returns a factory of requests about a new animal link. */
const toLink = (method: "GET" | "DELETE" | "POST", suffix = "", body?: unknown): RequestFactory =>
  withNewPartner(async (partner, link) => ({
    method,
    path: `/animal-links/${await link()}${suffix}`,
    headers: createClinicHeaders(partner),
    body,
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

/** Returns a factory of GET requests for the partner's clinic. */
const toClinic =
  (path: string): RequestFactory =>
  (partner) => ({ method: "GET", path, headers: createClinicHeaders(partner) });

/** Factories of a request for each operation. The request succeeds if the partner is authorized. */
export const validRequests: Record<PartnerOperationId, RequestFactory> = {
  exchangeToken: ({ applicationId, clientSecret, environment }) => ({
    method: "POST",
    path: "/oauth/token",
    headers: {},
    body: { client_id: applicationId, client_secret: clientSecret, grant_type: "client_credentials", environment },
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
  listSlots: toClinic("/slots?limit=2&from=2099-05-04T00:00:00Z"),
  listEvents: toClinic("/events?limit=2&wait=1"),
  linkAnimal: withNewPartner(async (partner) => toLinkRequest(partner)),
  listAnimalLinks: toClinic("/animal-links"),
  getAnimalLink: toLink("GET"),
  endAnimalLink: toLink("DELETE"),
  withdrawSandboxLink: toLink("POST", "/withdraw", { requestedBy: "owner" }),
  changeSandboxAccess: withNewPartner(async ({ headers }) => ({
    method: "POST",
    path: "/sandbox/access",
    headers,
    body: { animalAccess: "linked", branchIds: null },
  })),
  getSandboxState: ({ headers }) => ({ method: "GET", path: "/sandbox", headers }),
  resetSandbox: ({ headers }) => ({ method: "POST", path: "/sandbox/reset", headers }),
  changeSandboxAppointmentStatus: toNewAppointment("transitions", { to: "confirmed" }),
  rescheduleSandboxAppointment: toNewAppointment("reschedule", { scheduledAt: "2099-05-05T10:00:00Z" }),
  ...createEndpointRequests(clinicOwner),
};

/** Factories of a request for each operation without a clinic: the application's events and its own endpoints. */
export const applicationRequests: Partial<Record<PartnerOperationId, RequestFactory>> = {
  listEvents: ({ headers }) => ({ method: "GET", path: "/application/events?limit=2", headers }),
  ...createEndpointRequests(applicationOwner),
};
