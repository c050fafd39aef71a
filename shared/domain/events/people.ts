import { z } from "zod";
import { defineCategory, type EventOf } from "./category.ts";
import { boundedText, calendarDate, instant, label, uuid } from "./fields.ts";

export const permission = z.enum(["manage_staff", "view_clinical", "manage_schedule", "manage_tenant"]);
export type Permission = z.infer<typeof permission>;

const staffRole = z.enum(["owner", "manager", "veterinarian", "receptionist", "assistant"]);

const membershipRights = {
  role: staffRole,
  permissions: z.array(permission),
  branchAccess: z.enum(["all", "scoped"]),
  branchIds: z.array(uuid),
};

/**
 * Events of a portal user's membership of a clinic. Permissions and branches grant access. The role is only a label.
 * Stream id: id of the membership.
 */
export const membershipCategory = defineCategory("membership", {
  MembershipGranted: z.object({
    membershipId: uuid,
    clinicId: uuid,
    userId: uuid,
    staffId: uuid.nullable(),
    ...membershipRights,
    acceptedAt: instant.nullable(),
  }),
  MembershipAccepted: z.object({ membershipId: uuid }),
  MembershipPermissionsChanged: z.object({ membershipId: uuid, ...membershipRights }),
  MembershipRevoked: z.object({ membershipId: uuid, reason: label.nullable() }),
});
export type MembershipEvent = EventOf<typeof membershipCategory>;

/**
 * Events of a staff member of a clinic. A staff member may be linked to a portal user. Stream id: id of the staff
 * member.
 */
export const staffCategory = defineCategory("staff", {
  StaffMemberHired: z.object({
    staffId: uuid,
    clinicId: uuid,
    userId: uuid.nullable(),
    fullName: label.nullable(),
    email: z.email().nullable(),
    role: staffRole,
  }),
  StaffMemberDeactivated: z.object({ staffId: uuid }),
  StaffMemberReactivated: z.object({ staffId: uuid }),
});
export type StaffEvent = EventOf<typeof staffCategory>;

/** Events of a portal user, who selects a clinic and a branch. Stream id: id of the user. */
export const portalUserCategory = defineCategory("portalUser", {
  ClinicSelected: z.object({ userId: uuid, clinicId: uuid, branchId: uuid.nullable() }),
});
export type PortalUserEvent = EventOf<typeof portalUserCategory>;

const customerDetails = {
  fullName: label,
  phone: boundedText(40).nullable(),
  email: z.email().nullable(),
  city: label.nullable(),
};

/** Events of a customer, who owns animals and belongs to one clinic. Stream id: id of the customer. */
export const customerCategory = defineCategory("customer", {
  CustomerRegistered: z.object({ customerId: uuid, clinicId: uuid, ...customerDetails }),
  CustomerDetailsChanged: z.object({ customerId: uuid, ...customerDetails }),
});
export type CustomerEvent = EventOf<typeof customerCategory>;

const animalDetails = {
  name: label,
  species: boundedText(60),
  breed: label.nullable(),
  sex: boundedText(30).nullable(),
  birthDate: calendarDate.nullable(),
  microchip: boundedText(40).nullable(),
};

/** Events of an animal, which belongs to one clinic. Stream id: id of the animal. */
export const animalCategory = defineCategory("animal", {
  AnimalRegistered: z.object({
    animalId: uuid,
    clinicId: uuid,
    customerId: uuid,
    ...animalDetails,
    weightKg: z.number().positive().nullable(),
  }),
  AnimalDetailsChanged: z.object({ animalId: uuid, ...animalDetails }),
  AnimalWeighed: z.object({ animalId: uuid, weightKg: z.number().positive() }),
});
export type AnimalEvent = EventOf<typeof animalCategory>;
