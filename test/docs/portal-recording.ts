import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Recording } from "../../query-api/docs/openapi.ts";
import type { PortalOperationId } from "../../query-api/portal/authorization.ts";
import {
  animalRegistered,
  appointmentRequested,
  type ClinicIds,
  customerRegistered,
  openClinic,
  resourceAdded,
} from "../support/clinics.ts";
import { startTestQueryApi } from "../support/query-api.ts";
import type { GivenEvent } from "../support/read-models.ts";
import { createNormalizer } from "./normalize.ts";

const WINDOW = "from=2026-05-04T00:00:00Z&to=2026-05-05T00:00:00Z";

/** Path and query of each operation. */
const PATHS: Readonly<Record<PortalOperationId, string>> = {
  getClinicContext: "/clinic/context",
  listAuthorizedClinics: "/clinics",
  listAuthorizedBranches: "/branches",
  listServices: "/services",
  listStaff: "/staff",
  listCustomerProjections: "/customers",
  listAppointments: `/appointments?${WINDOW}`,
  getAvailability: `/availability?${WINDOW}`,
  getQueue: "/queue",
};

/** Records every operation of the portal API at a clinic with data. Ids and times are normalized. */
export async function recordPortalApi(): Promise<Recording> {
  const api = await startTestQueryApi(async () => ({ OPERATOR_NAME: "Example Operator" }));
  const clinic = await openClinic(api.given, { name: "Lake Vets", slug: "lake-vets" });
  await api.given(...createClinicEvents(clinic));
  const recording: Recording = { operations: {}, events: {} };
  for (const [id, path] of Object.entries(PATHS)) {
    const { status, body } = await api.get(`/api/v1${path}`, clinic.userId);
    expect(status, `${id}: ${JSON.stringify(body)}`).to.equal(200);
    recording.operations[id] = { status, response: body };
  }
  return createNormalizer({})(recording) as Recording;
}

/** Creates a service, a staff member, a customer with an animal, an appointment in a room, and a queue ticket. */
function createClinicEvents({ clinicId, branchId, userId }: ClinicIds): GivenEvent[] {
  const [customerId, animalId, resourceId, appointmentId] = Array.from({ length: 4 }, () => randomUUID()) as [
    string,
    string,
    string,
    string,
  ];
  const visit = { animalId, customerId, reason: "Vaccination" };
  return [
    {
      type: "ServiceOffered",
      data: {
        ...{ serviceId: randomUUID(), clinicId, name: "Consultation", category: "Visits" },
        ...{ price: 48.5, currency: "TRY", taxable: true },
      },
    },
    {
      type: "StaffMemberHired",
      data: {
        ...{ staffId: randomUUID(), clinicId, userId, fullName: "Cleo Example" },
        ...{ email: "cleo@example.com", role: "owner" },
      },
    },
    customerRegistered(clinicId, customerId, {
      ...{ fullName: "Ada Example", phone: "+90 232 555 0100", email: "ada@example.com", city: "Izmir" },
    }),
    animalRegistered(clinicId, customerId, animalId, {
      ...{ name: "Misty", species: "cat", breed: "Van", sex: "female", birthDate: "2021-04-02", weightKg: 4.2 },
    }),
    resourceAdded(clinicId, branchId, resourceId, { metadata: { floor: 1 } }),
    {
      type: "AvailabilityRuleSet",
      data: {
        ...{ resourceId, ruleId: randomUUID(), weekday: 1, startsAt: "09:00:00", endsAt: "17:00:00" },
        ...{ validFrom: "2026-01-01", validUntil: null, ruleType: "open", recurrence: null },
      },
    },
    appointmentRequested(clinicId, branchId, "2026-05-04T10:00:00.000Z", { appointmentId, ...visit }),
    ...createAllocations(clinicId, branchId, resourceId, appointmentId),
    {
      type: "QueueTicketIssued",
      data: {
        ...{ ticketId: randomUUID(), clinicId, branchId, appointmentId, visitId: null, animalId, customerId },
        ...{ ticketNumber: "7", queueDate: "2026-05-04", arrivalType: "appointment", priority: "normal" },
        ...{ estimatedWaitMinutes: 15, notes: null },
      },
      at: "2026-05-04T09:45:00.000Z",
    },
  ];
}

/** Creates events that allocate the room to the appointment, and hold the room for another half hour. */
function createAllocations(
  clinicId: string,
  branchId: string,
  resourceId: string,
  appointmentId: string,
): GivenEvent[] {
  const allocation = { allocationStart: "2026-05-04T10:00:00.000Z", allocationEnd: "2026-05-04T10:30:00.000Z" };
  const hold = {
    ...{ startsAt: "2026-05-04T11:00:00.000Z", endsAt: "2026-05-04T11:30:00.000Z" },
    // An expired hold would not be listed.
    expiresAt: "2126-05-04T09:30:00.000Z",
  };
  return [
    { type: "ResourceAllocated", data: { appointmentId, assignmentId: randomUUID(), resourceId, ...allocation } },
    { type: "HoldPlaced", data: { holdId: randomUUID(), clinicId, branchId, resourceId, ...hold } },
  ];
}
