import * as clinics from "../../shared/domain/clinic/clinic.ts";
import { currency, locale } from "../../shared/domain/clinic/locality.ts";
import { clinicStreams } from "../../shared/domain/events/clinic.ts";
import { DEFAULT_GRID_MINUTES } from "../../shared/domain/scheduling/free-times.ts";
import { timeZone } from "../../shared/domain/time/time-zone.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, handle } from "../handling/handle.ts";
import { declareCommand, defineCommand } from "./define-command.ts";

const { BookingRulesSet, ClinicRegistered, EntitlementSet, RetentionRuleSet, ...events } = clinicStreams.events;

export function registerClinic(
  log: EventLog,
  registration: Parameters<typeof clinics.registerClinic>[0],
  context: CommandContext,
) {
  const { clinicId, environment } = registration;
  const clinicContext = { ...context, clinicId, environment };
  return handle(log, clinics.clinicAggregate, clinicId, clinics.registerClinic(registration), clinicContext);
}

export const registerClinicCommand = declareCommand("clinic register", clinics.clinicAggregate, {
  summary: "Registers a clinic. The new clinic is active and has no branches.",
  input: ClinicRegistered.omit({ sandboxOf: true }).extend({
    environment: ClinicRegistered.shape.environment.default("production"),
    timezone: timeZone,
    currency,
    locale,
  }),
  creates: "clinicId",
  run: ({ log }, registration, context) => registerClinic(log, registration, context),
  example: {
    ...{
      slug: "lake-vets",
      name: "Lake Vets",
      timezone: "Europe/Zurich",
      currency: "CHF",
      locale: "de-CH",
      city: "Zug",
    },
  },
});

/** Settings of commands that change a clinic's status. Their deciders check themselves whether the clinic is closed. */
const own = { permission: "operator", isAllowedWhenClosed: true } as const;

export const suspendClinic = defineCommand("clinic suspend", clinics.clinicAggregate, {
  ...own,
  summary: "Suspends a clinic. Until the clinic is reinstated, its portal users and partners have no access.",
  input: events.ClinicSuspended,
  decide: clinics.suspendClinic,
  example: { reason: "Invoice overdue" },
});

export const reinstateClinic = defineCommand("clinic reinstate", clinics.clinicAggregate, {
  ...own,
  summary: "Makes a suspended clinic active again.",
  input: events.ClinicReinstated,
  decide: clinics.reinstateClinic,
});

export const closeClinic = defineCommand("clinic close", clinics.clinicAggregate, {
  ...own,
  summary: "Closes a clinic permanently. A closed clinic cannot be changed.",
  input: events.ClinicClosed,
  decide: clinics.closeClinic,
  example: { reason: "Practice given up" },
});

export const changeSubscription = defineCommand("clinic subscribe", clinics.clinicAggregate, {
  ...own,
  summary: "Sets a clinic's subscription.",
  input: events.SubscriptionChanged,
  decide: clinics.changeSubscription,
  example: { plan: "professional", status: "active", currentPeriodEnd: "2027-01-01T00:00:00Z" },
});

export const setEntitlement = defineCommand("clinic entitle", clinics.clinicAggregate, {
  ...own,
  summary: "Enables an entitlement of a clinic. With --enabled false, disables the entitlement.",
  input: EntitlementSet.extend({ enabled: EntitlementSet.shape.enabled.default(true) }),
  decide: clinics.setEntitlement,
  example: { key: "scheduling.advanced" },
});

export const setBookingRules = defineCommand("clinic set-booking-rules", clinics.clinicAggregate, {
  ...own,
  permission: "manage_tenant",
  summary: "Sets how partners book free times of the clinic's resources.",
  input: BookingRulesSet.extend({ gridMinutes: BookingRulesSet.shape.gridMinutes.default(DEFAULT_GRID_MINUTES) }),
  decide: clinics.setBookingRules,
  example: { confirmsBookings: true },
});

export const openBranch = defineCommand("branch open", clinics.clinicAggregate, {
  ...own,
  permission: "manage_tenant",
  summary: "Opens a branch of a clinic. The first branch is the main branch.",
  input: events.BranchOpened.omit({ isMain: true }),
  creates: "branchId",
  decide: clinics.openBranch,
  example: { name: "Old Town", city: "Zug" },
});

export const setRetentionRule = defineCommand("retention set", clinics.clinicAggregate, {
  ...own,
  permission: "manage_tenant",
  summary: "Sets how long a clinic keeps a category of personal data after a customer's last visit.",
  input: RetentionRuleSet.extend({ months: RetentionRuleSet.shape.months.unwrap() }),
  decide: clinics.setRetentionRule,
  example: { category: "notes", months: 60 },
});

export const removeRetentionRule = defineCommand("retention remove", clinics.clinicAggregate, {
  ...own,
  permission: "manage_tenant",
  summary: "Removes a retention rule. The clinic then keeps the category of personal data without a limit.",
  input: RetentionRuleSet.omit({ months: true }),
  decide: (rule) => clinics.setRetentionRule({ ...rule, months: null }),
  example: { category: "notes" },
});
