import { randomUUID } from "node:crypto";
import type { AppointmentEvent } from "../../shared/domain/events/appointment.ts";
import type { ClinicEvent, ResourceEvent } from "../../shared/domain/events/clinic.ts";
import type { AnimalEvent, CustomerEvent, MembershipEvent, Permission } from "../../shared/domain/events/people.ts";
import type { GivenEvent } from "./read-models.ts";

type Data<Event extends { type: string; data: unknown }, Type extends Event["type"]> = Extract<
  Event,
  { type: Type }
>["data"];

// Events of a clinic for tests. All clinics have the same names, so tests can tell clinics apart only by their ids.

export function clinicRegistered(
  clinicId: string,
  more: Partial<Data<ClinicEvent, "ClinicRegistered">> = {},
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
      ...more,
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
  more: Partial<Data<ClinicEvent, "BranchOpened">> = {},
): GivenEvent {
  return {
    type: "BranchOpened",
    data: { clinicId, branchId, name: "Center", city: null, isMain: true, ...more },
  };
}

export function entitlementSet(clinicId: string, more: Partial<Data<ClinicEvent, "EntitlementSet">> = {}): GivenEvent {
  return {
    type: "EntitlementSet",
    data: {
      clinicId,
      key: "scheduling.advanced",
      enabled: true,
      limit: null,
      effectiveUntil: null,
      ...more,
    },
  };
}

export const everyPermission: Permission[] = ["manage_staff", "view_clinical", "manage_schedule", "manage_tenant"];

export function membershipGranted(
  clinicId: string,
  userId: string,
  more: Partial<Data<MembershipEvent, "MembershipGranted">> = {},
): GivenEvent {
  return {
    type: "MembershipGranted",
    data: {
      membershipId: randomUUID(),
      clinicId,
      userId,
      staffId: null,
      role: "owner",
      permissions: everyPermission,
      branchAccess: "all",
      branchIds: [],
      acceptedAt: "2026-03-01T08:00:00.000Z",
      ...more,
    },
  };
}

export function resourceAdded(
  clinicId: string,
  branchId: string,
  resourceId: string,
  more: Partial<Data<ResourceEvent, "ResourceAdded">> = {},
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
      ...more,
    },
  };
}

export function customerRegistered(
  clinicId: string,
  customerId: string,
  more: Partial<Data<CustomerEvent, "CustomerRegistered">> = {},
): GivenEvent {
  return {
    type: "CustomerRegistered",
    data: { customerId, clinicId, fullName: "Ada Yilmaz", phone: null, email: null, city: null, ...more },
  };
}

export function animalRegistered(
  clinicId: string,
  customerId: string,
  animalId: string,
  more: Partial<Data<AnimalEvent, "AnimalRegistered">> = {},
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
      ...more,
    },
  };
}

export function appointmentRequested(
  clinicId: string,
  branchId: string,
  scheduledAt: string,
  more: Partial<Data<AppointmentEvent, "AppointmentRequested">> = {},
): GivenEvent {
  return {
    type: "AppointmentRequested",
    data: {
      appointmentId: randomUUID(),
      clinicId,
      branchId,
      animalId: null,
      customerId: null,
      scheduledAt,
      durationMinutes: 30,
      reason: null,
      notes: null,
      applicationId: null,
      requestHash: null,
      sandboxGeneration: 0,
      ...more,
    },
  };
}

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
  more: Partial<Data<ClinicEvent, "ClinicRegistered">> = {},
): Promise<ClinicIds> {
  const ids = {
    clinicId: randomUUID(),
    branchId: randomUUID(),
    otherBranchId: randomUUID(),
    userId: randomUUID(),
  };
  await given(
    clinicRegistered(ids.clinicId, more),
    subscriptionChanged(ids.clinicId),
    entitlementSet(ids.clinicId),
    branchOpened(ids.clinicId, ids.branchId),
    branchOpened(ids.clinicId, ids.otherBranchId, { name: "Harbour", isMain: false }),
    membershipGranted(ids.clinicId, ids.userId),
  );
  return ids;
}
