import { randomUUID } from "node:crypto";
import { requestDefaults } from "../../shared/domain/events/appointment.ts";
import type { Permission } from "../../shared/domain/events/people.ts";
import type { GivenEvent } from "./read-models.ts";

type Data<Type extends GivenEvent["type"]> = Extract<GivenEvent, { type: Type }>["data"];

type EightIds = [string, string, string, string, string, string, string, string];

/** Creates eight ids for destructuring: `const [clinicId, userId] = createIds()`. */
export function createIds(): EightIds {
  return Array.from({ length: 8 }, () => randomUUID()) as unknown as EightIds;
}

type Changes<Type extends GivenEvent["type"]> = Partial<Data<Type>>;

const createEvent = <Type extends GivenEvent["type"]>(type: Type, data: Data<Type>) => ({ type, data }) as GivenEvent;

/** Returns a function that creates events of a type. Callers must pass only the fields without a default. */
function createEventFactory<Type extends GivenEvent["type"], Defaults extends Changes<Type>>(
  type: Type,
  defaults: Defaults,
) {
  return (data: Omit<Data<Type>, keyof Defaults> & Changes<Type>) =>
    createEvent(type, { ...defaults, ...data } as unknown as Data<Type>);
}

// Events of a clinic for tests. All clinics have the same names, so tests can tell clinics apart only by their ids.

export const clinicRegistered = (clinicId: string, changes: Changes<"ClinicRegistered"> = {}) =>
  createEvent("ClinicRegistered", {
    ...{ clinicId, environment: "production", slug: "happy-paws", name: "Happy Paws", timezone: "Europe/Istanbul" },
    ...{ currency: "TRY", locale: "tr-TR", city: "Izmir", isDemo: false, demoExpiresAt: null },
    ...changes,
  });

export const subscriptionChanged = (
  clinicId: string,
  status: Data<"SubscriptionChanged">["status"] = "active",
  currentPeriodEnd: string | null = "2027-01-01T00:00:00.000Z",
) => createEvent("SubscriptionChanged", { clinicId, plan: "pro", status, currentPeriodEnd });

export const branchOpened = (clinicId: string, branchId: string, changes: Changes<"BranchOpened"> = {}) =>
  createEvent("BranchOpened", { clinicId, branchId, name: "Center", city: null, isMain: true, ...changes });

export const entitlementSet = (clinicId: string, changes: Changes<"EntitlementSet"> = {}) =>
  createEvent("EntitlementSet", {
    ...{ clinicId, key: "scheduling.advanced", enabled: true, limit: null, effectiveUntil: null },
    ...changes,
  });

export const allPermissions: Permission[] = ["manage_staff", "view_clinical", "manage_schedule", "manage_tenant"];

export const membershipGranted = (clinicId: string, userId: string, changes: Changes<"MembershipGranted"> = {}) =>
  createEvent("MembershipGranted", {
    ...{ membershipId: randomUUID(), clinicId, userId, staffId: null, role: "owner", permissions: allPermissions },
    ...{ branchAccess: "all", branchIds: [], acceptedAt: "2026-03-01T08:00:00.000Z" },
    ...changes,
  });

export const resourceAdded = (
  clinicId: string,
  branchId: string,
  resourceId: string,
  changes: Changes<"ResourceAdded"> = {},
) =>
  createEvent("ResourceAdded", {
    ...{ resourceId, clinicId, branchId, resourceType: "room", name: "Room 1", capacity: 1 },
    ...{ timezone: "Europe/Istanbul", metadata: {} },
    ...changes,
  });

export const customerRegistered = (clinicId: string, customerId: string, changes: Changes<"CustomerRegistered"> = {}) =>
  createEvent("CustomerRegistered", {
    ...{ customerId, clinicId, fullName: "Ada Yilmaz", phone: null, email: null, city: null },
    ...changes,
  });

export const animalRegistered = (
  clinicId: string,
  customerId: string,
  animalId: string,
  changes: Changes<"AnimalRegistered"> = {},
) =>
  createEvent("AnimalRegistered", {
    ...{ animalId, clinicId, customerId, name: "Pamuk", species: "cat", breed: null, sex: null },
    ...{ birthDate: null, microchip: null, weightKg: null },
    ...changes,
  });

export const appointmentRequested = (
  clinicId: string,
  branchId: string,
  scheduledAt: string,
  changes: Changes<"AppointmentRequested"> = {},
) =>
  createEvent("AppointmentRequested", {
    ...requestDefaults,
    ...{ appointmentId: randomUUID(), clinicId, branchId, scheduledAt },
    ...changes,
  });

export const serviceOffered = createEventFactory("ServiceOffered", {
  ...{ category: null, price: 10, currency: "TRY", taxable: true },
});

export const staffMemberHired = createEventFactory("StaffMemberHired", {
  ...{ userId: null, fullName: null, email: null, role: "veterinarian" },
});

export const availabilityRuleSet = createEventFactory("AvailabilityRuleSet", {
  ...{ weekday: 0, startsAt: "09:00:00", endsAt: "17:30:00", validFrom: null, validUntil: null },
  ...{ ruleType: "open", recurrence: null },
});

export const holdPlaced = createEventFactory("HoldPlaced", {
  ...{ resourceId: null, startsAt: "2026-03-03T10:00:00Z", endsAt: "2026-03-03T10:30:00Z" },
  expiresAt: "2036-01-01T00:00:00Z",
});

export const resourceAllocated = createEventFactory("ResourceAllocated", {
  ...{ allocationStart: "2026-03-03T09:00:00.000Z", allocationEnd: "2026-03-03T09:30:00.000Z" },
});

export const queueTicketIssued = createEventFactory("QueueTicketIssued", {
  ...{ appointmentId: null, visitId: null, animalId: null, customerId: null, ticketNumber: "1" },
  ...{ queueDate: "2026-03-01", arrivalType: "walk_in", priority: "normal", estimatedWaitMinutes: null, notes: null },
});

export interface ClinicIds {
  clinicId: string;
  branchId: string;
  otherBranchId: string;
  /** Id of the owner, who has every permission at every branch. */
  userId: string;
}

/** Creates an operational clinic with two branches, an owner and the entitlement `scheduling.advanced`. */
export async function openClinic(
  given: (...events: GivenEvent[]) => Promise<void>,
  changes: Changes<"ClinicRegistered"> = {},
): Promise<ClinicIds> {
  const [clinicId, branchId, otherBranchId, userId] = createIds();
  const ids = { clinicId, branchId, otherBranchId, userId };
  await given(
    clinicRegistered(ids.clinicId, changes),
    subscriptionChanged(ids.clinicId),
    entitlementSet(ids.clinicId),
    branchOpened(ids.clinicId, ids.branchId),
    branchOpened(ids.clinicId, ids.otherBranchId, { name: "Harbour", isMain: false }),
    membershipGranted(ids.clinicId, ids.userId),
  );
  return ids;
}
