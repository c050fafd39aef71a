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
const currencyCode = z.string().regex(/^[A-Z]{3}$/, "must be an ISO 4217 code of three capital letters");
const timezone = notPersonal(boundedText(60), "name of a time zone");

/**
 * Events of a clinic (tenant): identity, status, branches, subscription and entitlements. Stream id: id of the
 * clinic.
 */
export const clinicStreams = defineCategory(
  "clinic",
  ({ data }) => data.clinicId,
  limitExcept("ClinicSuspended", "ClinicClosed"),
  {
    ClinicRegistered: z.object({
      clinicId,
      environment,
      slug: z
        .string()
        .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, "must be lower-case letters and digits, in words joined by hyphens")
        .max(60),
      name: notPersonal(label, "name of a clinic"),
      timezone,
      currency: currencyCode,
      locale: notPersonal(boundedText(35), "code of a language"),
      city: notPersonal(label.nullable(), "address of a clinic"),
      isDemo: z.boolean(),
      demoExpiresAt: instant.nullable(),
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
      plan: notPersonal(boundedText(60), "name of a subscription plan"),
      status: z.enum(["trialing", "active", "past_due", "cancelled", "expired"]),
      currentPeriodEnd: instant.nullable(),
    }),
    EntitlementSet: z.object({
      clinicId,
      key: z
        .string()
        .regex(
          /^[a-z][a-z0-9_.]{0,79}$/,
          "must be up to 80 lower-case letters, digits, dots and underscores, and begin with a letter",
        ),
      enabled: z.boolean(),
      limit: z.number().nonnegative().nullable(),
      effectiveUntil: instant.nullable(),
    }),
    /** Sets how long the clinic keeps a category of its customers' data after their last visit. */
    RetentionRuleSet: z.object({
      clinicId,
      category: personalDataCategorySchema,
      /** Retention period in months; null if the clinic has no rule for the category. */
      months: integer(1, 1_200).nullable(),
    }),
  },
);
export type ClinicEvent = EventOf<typeof clinicStreams>;

/** Events of a service in a clinic's catalog. Stream id: id of the service. */
export const serviceStreams = defineCategory("service", ({ data }) => data.serviceId, limitExcept("ServiceWithdrawn"), {
  ServiceOffered: z.object({
    serviceId: uuid,
    clinicId,
    name: notPersonal(label, "name of a service"),
    category: notPersonal(label.nullable(), "group of services"),
    price: z.number().nonnegative(),
    currency: currencyCode,
    taxable: z.boolean(),
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
  ({ data }) => data.resourceId,
  limitExcept("ResourceRetired", "AvailabilityRuleRemoved"),
  {
    ResourceAdded: z.object({
      resourceId: uuid,
      clinicId,
      branchId: uuid,
      resourceType: notPersonal(boundedText(60), "type of a resource"),
      name: notPersonal(label, "name of a room, device or calendar"),
      capacity: z.number().nonnegative(),
      timezone,
      metadata: notPersonal(freeForm, "technical attributes of a resource"),
    }),
    ResourceRetired: z.object({ resourceId: uuid }),
    AvailabilityRuleSet: z.object({
      resourceId: uuid,
      ruleId: uuid,
      weekday: integer(0, 6),
      startsAt: timeOfDay,
      endsAt: endTimeOfDay,
      validFrom: calendarDate.nullable(),
      validUntil: calendarDate.nullable(),
      ruleType: notPersonal(boundedText(60), "type of an availability rule"),
      recurrence: notPersonal(freeForm.nullable(), "recurrence of opening hours"),
    }),
    AvailabilityRuleRemoved: z.object({ resourceId: uuid, ruleId: uuid }),
  },
);
export type ResourceEvent = EventOf<typeof resourceStreams>;
