import { z } from "zod";
import { ERASED_TEXT, personal } from "../personal-data/declaration.ts";
import { defineCategory, type EventOf, limitExcept, summaries } from "./category.ts";
import { erasedData, erasureRecord } from "./erasure.ts";
import { boundedText, calendarDate, email, instant, label, uuid } from "./fields.ts";

export const permission = z.enum(["manage_staff", "view_clinical", "manage_schedule", "manage_tenant"]);
export type Permission = z.infer<typeof permission>;

const staffRole = z.enum(["owner", "manager", "veterinarian", "receptionist", "assistant"]);

const membershipRights = {
  role: staffRole.describe("role, which grants no permissions"),
  permissions: z.array(permission),
  branchAccess: z.enum(["all", "scoped"]),
  branchIds: z.array(uuid),
};

/**
 * Events of a portal user's membership of a clinic. Permissions and branches grant access. The role is only a label.
 * Stream id: id of the membership.
 */
export const membershipStreams = defineCategory("membership", "membershipId", limitExcept("MembershipRevoked"), {
  MembershipGranted: z.object({
    membershipId: uuid,
    clinicId: uuid,
    userId: uuid.describe("id of the portal user: the `sub` claim of the user's session"),
    staffId: uuid.nullable().describe("id of the staff member who is this user"),
    ...membershipRights,
    acceptedAt: instant.nullable().describe("time at which the user accepted the invitation"),
  }),
  MembershipAccepted: z.object({ membershipId: uuid }),
  MembershipPermissionsChanged: z.object({ membershipId: uuid, ...membershipRights }),
  MembershipRevoked: z.object({ membershipId: uuid, reason: personal("notes", label.nullable(), null) }),
});
export type MembershipEvent = EventOf<typeof membershipStreams>;

/**
 * Events of a staff member of a clinic. A staff member may be linked to a portal user. Stream id: id of the staff
 * member.
 */
export const staffStreams = defineCategory(
  "staff",
  "staffId",
  limitExcept("StaffMemberDeactivated", "StaffDataErased"),
  {
    StaffMemberHired: z.object({
      staffId: uuid,
      clinicId: uuid,
      userId: uuid.nullable().describe("id of the staff member's portal user"),
      fullName: personal("contact", label.nullable(), null),
      email: personal("contact", email.nullable(), null),
      role: staffRole,
    }),
    StaffMemberDeactivated: z.object({ staffId: uuid }),
    StaffMemberReactivated: z.object({ staffId: uuid }),
    StaffDataErased: z.object({ staffId: uuid, ...erasureRecord }),
  },
);
export type StaffEvent = EventOf<typeof staffStreams>;

/** Events of a portal user, who selects a clinic and a branch. Stream id: id of the user. */
export const portalUserStreams = defineCategory("portalUser", "userId", summaries("PortalUserSummarized"), {
  ClinicSelected: z.object({
    userId: uuid,
    clinicId: uuid,
    branchId: uuid.nullable().describe("id of the branch; default: the user's first branch"),
  }),
  PortalUserDataErased: z.object({ userId: uuid, ...erasureRecord }),
  /** Summary of the user's selection and erasures; see `Aggregate.summarize`. Does not change the state. */
  PortalUserSummarized: z.object({
    userId: uuid,
    clinicId: uuid.nullable(),
    branchId: uuid.nullable(),
    ...erasedData,
  }),
});
export type PortalUserEvent = EventOf<typeof portalUserStreams>;

const customerDetails = {
  fullName: personal("contact", label, ERASED_TEXT),
  phone: personal("contact", boundedText(40).nullable(), null),
  email: personal("contact", email.nullable(), null),
  city: personal("contact", label.nullable(), null),
};

/** Events of a customer, who owns animals and belongs to one clinic. Stream id: id of the customer. */
export const customerStreams = defineCategory("customer", "customerId", limitExcept("CustomerDataErased"), {
  CustomerRegistered: z.object({ customerId: uuid, clinicId: uuid, ...customerDetails }),
  CustomerDetailsChanged: z.object({ customerId: uuid, ...customerDetails }),
  /** Also erases the data of the customer's animals, appointments and queue tickets. */
  CustomerDataErased: z.object({ customerId: uuid, ...erasureRecord }),
});
export type CustomerEvent = EventOf<typeof customerStreams>;

const animalDetails = {
  name: personal("animal", label, ERASED_TEXT),
  species: personal("animal", boundedText(60), ERASED_TEXT),
  breed: personal("animal", label.nullable(), null),
  sex: personal("animal", boundedText(30).nullable(), null),
  birthDate: calendarDate.nullable().describe("date of birth"),
  microchip: personal("animal", boundedText(40).nullable(), null),
};

/** Events of an animal, which belongs to one clinic. Stream id: id of the animal. */
export const animalStreams = defineCategory("animal", "animalId", limitExcept<never>(), {
  AnimalRegistered: z.object({
    animalId: uuid,
    clinicId: uuid,
    customerId: uuid,
    ...animalDetails,
    weightKg: z.number().positive().nullable().describe("weight in kilograms"),
  }),
  AnimalDetailsChanged: z.object({ animalId: uuid, ...animalDetails }),
  AnimalWeighed: z.object({ animalId: uuid, weightKg: z.number().positive().describe("weight in kilograms") }),
});
export type AnimalEvent = EventOf<typeof animalStreams>;
