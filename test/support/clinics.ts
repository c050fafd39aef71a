import { randomUUID } from "node:crypto";
import { type AppointmentEvent, requestDefaults } from "../../shared/domain/events/appointment.ts";
import type { ClinicEvent, ResourceEvent } from "../../shared/domain/events/clinic.ts";
import type { AnimalEvent, CustomerEvent, MembershipEvent, Permission } from "../../shared/domain/events/people.ts";
import type { GivenEvent } from "./read-models.ts";

type Data<Event extends { type: string; data: unknown }, Type extends Event["type"]> = Extract<
  Event,
  { type: Type }
>["data"];

type EightIds = [string, string, string, string, string, string, string, string];

/** Creates eight ids. A test takes as many as it needs: `const [clinicId, userId] = createIds()`. */
export function createIds(): EightIds {
  return Array.from({ length: 8 }, () => randomUUID()) as unknown as EightIds;
}

/** Returns a function that creates an event of a type. Its parameter needs only the fields without a default. */
function createEventFactory<Type extends GivenEvent["type"], Defaults extends Partial<Data<GivenEvent, Type>>>(
  type: Type,
  defaults: Defaults,
) {
  return (data: Omit<Data<GivenEvent, Type>, keyof Defaults> & Partial<Data<GivenEvent, Type>>) =>
    ({ type, data: { ...defaults, ...data } }) as unknown as GivenEvent;
}

// Events of a clinic for tests. All clinics have the same names, so tests can tell clinics apart only by their ids.

export function clinicRegistered(
  clinicId: string,
  data: Partial<Data<ClinicEvent, "ClinicRegistered">> = {},
): GivenEvent {
  return {
    type: "ClinicRegistered",
    data: {
      clinicId,
      environment: "production",
      slug: "happy-paws",
      name: "Happy Paws",
      timezone: "Europe/Istanbul",
      currency: "TRY",
      locale: "tr-TR",
      city: "Izmir",
      isDemo: false,
      demoExpiresAt: null,
      ...data,
    },
  };
}

export function subscriptionChanged(
  clinicId: string,
  status: Data<ClinicEvent, "SubscriptionChanged">["status"] = "active",
  currentPeriodEnd: string | null = "2027-01-01T00:00:00.000Z",
): GivenEvent {
  return { type: "SubscriptionChanged", data: { clinicId, plan: "pro", status, currentPeriodEnd } };
}

export function branchOpened(
  clinicId: string,
  branchId: string,
  data: Partial<Data<ClinicEvent, "BranchOpened">> = {},
): GivenEvent {
  return {
    type: "BranchOpened",
    data: { clinicId, branchId, name: "Center", city: null, isMain: true, ...data },
  };
}

export function entitlementSet(clinicId: string, data: Partial<Data<ClinicEvent, "EntitlementSet">> = {}): GivenEvent {
  return {
    type: "EntitlementSet",
    data: {
      clinicId,
      key: "scheduling.advanced",
      enabled: true,
      limit: null,
      effectiveUntil: null,
      ...data,
    },
  };
}

export const allPermissions: Permission[] = ["manage_staff", "view_clinical", "manage_schedule", "manage_tenant"];

export function membershipGranted(
  clinicId: string,
  userId: string,
  data: Partial<Data<MembershipEvent, "MembershipGranted">> = {},
): GivenEvent {
  return {
    type: "MembershipGranted",
    data: {
      membershipId: randomUUID(),
      clinicId,
      userId,
      staffId: null,
      role: "owner",
      permissions: allPermissions,
      branchAccess: "all",
      branchIds: [],
      acceptedAt: "2026-03-01T08:00:00.000Z",
      ...data,
    },
  };
}

export function resourceAdded(
  clinicId: string,
  branchId: string,
  resourceId: string,
  data: Partial<Data<ResourceEvent, "ResourceAdded">> = {},
): GivenEvent {
  return {
    type: "ResourceAdded",
    data: {
      resourceId,
      clinicId,
      branchId,
      resourceType: "room",
      name: "Room 1",
      capacity: 1,
      timezone: "Europe/Istanbul",
      metadata: {},
      ...data,
    },
  };
}

export function customerRegistered(
  clinicId: string,
  customerId: string,
  data: Partial<Data<CustomerEvent, "CustomerRegistered">> = {},
): GivenEvent {
  return {
    type: "CustomerRegistered",
    data: { customerId, clinicId, fullName: "Ada Yilmaz", phone: null, email: null, city: null, ...data },
  };
}

export function animalRegistered(
  clinicId: string,
  customerId: string,
  animalId: string,
  data: Partial<Data<AnimalEvent, "AnimalRegistered">> = {},
): GivenEvent {
  return {
    type: "AnimalRegistered",
    data: {
      animalId,
      clinicId,
      customerId,
      name: "Pamuk",
      species: "cat",
      breed: null,
      sex: null,
      birthDate: null,
      microchip: null,
      weightKg: null,
      ...data,
    },
  };
}

export function appointmentRequested(
  clinicId: string,
  branchId: string,
  scheduledAt: string,
  data: Partial<Data<AppointmentEvent, "AppointmentRequested">> = {},
): GivenEvent {
  return {
    type: "AppointmentRequested",
    data: {
      ...requestDefaults,
      appointmentId: randomUUID(),
      clinicId,
      branchId,
      scheduledAt,
      ...data,
    },
  };
}

export const serviceOffered = createEventFactory("ServiceOffered", {
  category: null,
  price: 10,
  currency: "TRY",
  taxable: true,
});

export const staffMemberHired = createEventFactory("StaffMemberHired", {
  userId: null,
  fullName: null,
  email: null,
  role: "veterinarian",
});

export const availabilityRuleSet = createEventFactory("AvailabilityRuleSet", {
  weekday: 0,
  startsAt: "09:00:00",
  endsAt: "17:30:00",
  validFrom: null,
  validUntil: null,
  ruleType: "open",
  recurrence: null,
});

export const holdPlaced = createEventFactory("HoldPlaced", {
  resourceId: null,
  startsAt: "2026-03-03T10:00:00Z",
  endsAt: "2026-03-03T10:30:00Z",
  expiresAt: "2036-01-01T00:00:00Z",
});

export const resourceAllocated = createEventFactory("ResourceAllocated", {
  allocationStart: "2026-03-03T09:00:00.000Z",
  allocationEnd: "2026-03-03T09:30:00.000Z",
});

export const queueTicketIssued = createEventFactory("QueueTicketIssued", {
  appointmentId: null,
  visitId: null,
  animalId: null,
  customerId: null,
  ticketNumber: "1",
  queueDate: "2026-03-01",
  arrivalType: "walk_in",
  priority: "normal",
  estimatedWaitMinutes: null,
  notes: null,
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
  data: Partial<Data<ClinicEvent, "ClinicRegistered">> = {},
): Promise<ClinicIds> {
  const ids = {
    clinicId: randomUUID(),
    branchId: randomUUID(),
    otherBranchId: randomUUID(),
    userId: randomUUID(),
  };
  await given(
    clinicRegistered(ids.clinicId, data),
    subscriptionChanged(ids.clinicId),
    entitlementSet(ids.clinicId),
    branchOpened(ids.clinicId, ids.branchId),
    branchOpened(ids.clinicId, ids.otherBranchId, { name: "Harbour", isMain: false }),
    membershipGranted(ids.clinicId, ids.userId),
  );
  return ids;
}
