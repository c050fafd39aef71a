import { z } from "zod";
import { notPersonal } from "../personal-data/declaration.ts";
import { defineCategory, type EventOf, limitExcept } from "./category.ts";
import { personalDataCategorySchema } from "./erasure.ts";
import {
  boundedText,
  calendarDate,
  endTimeOfDay,
  environment,
  freeForm,
  instant,
  integer,
  label,
  timeOfDay,
  uuid,
} from "./fields.ts";

const clinicId = uuid;
const currencyCode = z
  .string()
  .regex(/^[A-Z]{3}$/, "must be an ISO 4217 code of three capital letters")
  .describe("ISO 4217 code, such as CHF");
const timezone = notPersonal(boundedText(60), "name of a time zone");

/**
 * Events of a clinic (tenant): identity, status, branches, subscription and entitlements. Stream id: id of the
 * clinic.
 */
export const clinicStreams = defineCategory("clinic", "clinicId", limitExcept("ClinicSuspended", "ClinicClosed"), {
  ClinicRegistered: z.object({
    clinicId,
    environment,
    slug: z
      .string()
      .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, "must be lower-case letters and digits, in words joined by hyphens")
      .max(60)
      .describe("short name for URLs: lower-case letters, digits and hyphens"),
    name: notPersonal(label, "name of a clinic"),
    timezone,
    currency: currencyCode,
    locale: notPersonal(boundedText(35), "code of a language").describe("BCP 47 language tag, such as de-CH"),
    city: notPersonal(label.nullable(), "address of a clinic"),
    isDemo: z.boolean().describe("mark the clinic as a demo"),
    demoExpiresAt: instant.nullable().describe("time at which a demo clinic expires"),
    /** Id of the application that owns the clinic as its sandbox; absent if the clinic is not a sandbox. */
    sandboxOf: uuid.optional(),
  }),
  ClinicSuspended: z.object({ clinicId, reason: notPersonal(label, "reason about a clinic") }),
  ClinicReinstated: z.object({ clinicId }),
  ClinicClosed: z.object({ clinicId, reason: notPersonal(label, "reason about a clinic") }),
  BranchOpened: z.object({
    clinicId,
    branchId: uuid,
    name: notPersonal(label, "name of a branch"),
    city: notPersonal(label.nullable(), "address of a branch"),
    isMain: z.boolean(),
  }),
  SubscriptionChanged: z.object({
    clinicId,
    plan: notPersonal(boundedText(60), "name of a subscription plan").describe("name of the plan"),
    status: z.enum(["trialing", "active", "past_due", "cancelled", "expired"]),
    currentPeriodEnd: instant.nullable().describe("end of the paid period"),
  }),
  EntitlementSet: z.object({
    clinicId,
    key: z
      .string()
      .regex(
        /^[a-z][a-z0-9_.]{0,79}$/,
        "must be up to 80 lower-case letters, digits, dots and underscores, and begin with a letter",
      )
      .describe("name of the entitlement, such as scheduling.advanced"),
    enabled: z.boolean(),
    limit: z.number().nonnegative().nullable().describe("quantity of a counted entitlement"),
    effectiveUntil: instant.nullable().describe("time at which the entitlement ends"),
  }),
  /** Sets how partners book free times. */
  BookingRulesSet: z.object({
    clinicId,
    gridMinutes: integer(5, 240).describe("minutes between two starting times"),
    confirmsBookings: z.boolean().describe("confirm booked appointments at once; default: the staff confirms them"),
  }),
  /** Sets how long the clinic keeps a category of its customers' data after their last visit. */
  RetentionRuleSet: z.object({
    clinicId,
    category: personalDataCategorySchema.describe("category of personal data"),
    /** Retention period in months; null if the clinic has no rule for the category. */
    months: integer(1, 1_200).describe("length of the period in months").nullable(),
  }),
});
export type ClinicEvent = EventOf<typeof clinicStreams>;

/** Events of a service in a clinic's catalog. Stream id: id of the service. */
export const serviceStreams = defineCategory("service", "serviceId", limitExcept("ServiceWithdrawn"), {
  ServiceOffered: z.object({
    serviceId: uuid,
    clinicId,
    name: notPersonal(label, "name of a service"),
    category: notPersonal(label.nullable(), "group of services"),
    price: z.number().nonnegative(),
    currency: currencyCode,
    taxable: z.boolean().describe("mark the service as taxable"),
  }),
  ServiceRepriced: z.object({ serviceId: uuid, price: z.number().nonnegative() }),
  ServiceWithdrawn: z.object({ serviceId: uuid }),
  ServiceReinstated: z.object({ serviceId: uuid }),
});
export type ServiceEvent = EventOf<typeof serviceStreams>;

/**
 * Events of a bookable resource (room, device or staff time) and its availability rules. Stream id: id of the
 * resource.
 */
export const resourceStreams = defineCategory(
  "resource",
  "resourceId",
  limitExcept("ResourceRetired", "AvailabilityRuleRemoved"),
  {
    ResourceAdded: z.object({
      resourceId: uuid,
      clinicId,
      branchId: uuid,
      resourceType: notPersonal(boundedText(60), "type of a resource"),
      name: notPersonal(label, "name of a room, device or calendar"),
      capacity: z.number().nonnegative().describe("number of simultaneous appointments"),
      timezone,
      metadata: notPersonal(freeForm, "technical attributes of a resource").describe(
        "other properties, as a JSON object",
      ),
    }),
    ResourceRetired: z.object({ resourceId: uuid }),
    AvailabilityRuleSet: z.object({
      resourceId: uuid,
      ruleId: uuid,
      weekday: integer(0, 6).describe("0 (Sunday) to 6 (Saturday)"),
      startsAt: timeOfDay.describe("start of the period"),
      endsAt: endTimeOfDay.describe("end of the period on the same day; 24:00:00 is the end of the day"),
      validFrom: calendarDate.nullable().describe("first day on which the rule applies"),
      validUntil: calendarDate.nullable().describe("last day on which the rule applies"),
      ruleType: notPersonal(boundedText(60), "type of an availability rule"),
      recurrence: notPersonal(freeForm.nullable(), "recurrence of opening hours").describe(
        "recurrence, as a JSON object",
      ),
    }),
    AvailabilityRuleRemoved: z.object({ resourceId: uuid, ruleId: uuid }),
  },
);
export type ResourceEvent = EventOf<typeof resourceStreams>;
