import { z } from "zod";
import { defineCategory, type EventOf } from "./category.ts";
import { boundedText, calendarDate, environment, freeForm, instant, label, timeOfDay, uuid } from "./fields.ts";

const clinicId = uuid;

/**
 * Events of a clinic (tenant): identity, status, branches, subscription and entitlements. Stream id: id of the
 * clinic.
 */
export const clinicCategory = defineCategory("clinic", {
  ClinicRegistered: z.object({
    clinicId,
    environment,
    slug: z
      .string()
      .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, "must be lower-case letters and digits, in words joined by hyphens")
      .max(60),
    name: label,
    timezone: boundedText(60),
    currency: z.string().regex(/^[A-Z]{3}$/, "must be an ISO 4217 code of three capital letters"),
    locale: boundedText(35),
    city: label.nullable(),
    isDemo: z.boolean(),
    demoExpiresAt: instant.nullable(),
    /** Id of the application that owns the clinic as its sandbox; absent if the clinic is not a sandbox. */
    sandboxOf: uuid.optional(),
  }),
  ClinicSuspended: z.object({ clinicId, reason: label }),
  ClinicReinstated: z.object({ clinicId }),
  ClinicClosed: z.object({ clinicId, reason: label }),
  BranchOpened: z.object({
    clinicId,
    branchId: uuid,
    name: label,
    city: label.nullable(),
    isMain: z.boolean(),
  }),
  SubscriptionChanged: z.object({
    clinicId,
    plan: boundedText(60),
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
});
export type ClinicEvent = EventOf<typeof clinicCategory>;

/** Events of a service in a clinic's catalog. Stream id: id of the service. */
export const serviceCategory = defineCategory("service", {
  ServiceOffered: z.object({
    serviceId: uuid,
    clinicId,
    name: label,
    category: label.nullable(),
    price: z.number().nonnegative(),
    currency: z.string().regex(/^[A-Z]{3}$/, "must be an ISO 4217 code of three capital letters"),
    taxable: z.boolean(),
  }),
  ServiceRepriced: z.object({ serviceId: uuid, price: z.number().nonnegative() }),
  ServiceWithdrawn: z.object({ serviceId: uuid }),
  ServiceReinstated: z.object({ serviceId: uuid }),
});
export type ServiceEvent = EventOf<typeof serviceCategory>;

/**
 * Events of a bookable resource (room, device or staff time) and its availability rules. Stream id: id of the
 * resource.
 */
export const resourceCategory = defineCategory("resource", {
  ResourceAdded: z.object({
    resourceId: uuid,
    clinicId,
    branchId: uuid,
    resourceType: boundedText(60),
    name: label,
    capacity: z.number().nonnegative(),
    timezone: boundedText(60),
    metadata: freeForm,
  }),
  ResourceRetired: z.object({ resourceId: uuid }),
  AvailabilityRuleSet: z.object({
    resourceId: uuid,
    ruleId: uuid,
    weekday: z.int().min(0).max(6),
    startsAt: timeOfDay,
    endsAt: timeOfDay,
    validFrom: calendarDate.nullable(),
    validUntil: calendarDate.nullable(),
    ruleType: boundedText(60),
    recurrence: freeForm.nullable(),
  }),
  AvailabilityRuleRemoved: z.object({ resourceId: uuid, ruleId: uuid }),
});
export type ResourceEvent = EventOf<typeof resourceCategory>;
