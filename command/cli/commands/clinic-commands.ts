import { clinicCategory } from "../../../shared/domain/events/clinic.ts";
import {
  changeSubscription,
  closeClinic,
  openBranch,
  registerClinic,
  reinstateClinic,
  setEntitlement,
  suspendClinic,
} from "../../operations/clinic-operations.ts";
import { type Command, defineCommand } from "../framework/command.ts";
import { flag, id, newId, number, text, textOrNull, timeZone } from "../framework/option.ts";

const { ClinicRegistered, ClinicSuspended, BranchOpened, SubscriptionChanged, EntitlementSet } =
  clinicCategory.events;
const registered = ClinicRegistered.shape;
const EXAMPLE = "0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";

const clinic = id("the clinic");
const reason = text(ClinicSuspended.shape.reason, "reason");

export const clinicCommands: Command[] = [
  defineCommand({
    name: "clinic register",
    summary: "Registers a clinic. It is active at once and has no branches yet.",
    example:
      "--slug lake-vets --name 'Lake Vets' --timezone Europe/Zurich --currency CHF --locale de-CH --city Zug",
    options: {
      id: newId("the new clinic's id"),
      environment: text(registered.environment.default("production"), "sandbox or production", "name"),
      slug: text(registered.slug, "short name for URLs: lower-case letters, digits and hyphens"),
      name: text(registered.name, "name"),
      timezone: text(timeZone, "IANA time zone, such as Europe/Zurich", "zone"),
      currency: text(registered.currency, "ISO 4217 code, such as CHF", "code"),
      locale: text(registered.locale, "BCP 47 language tag, such as de-CH", "tag"),
      city: textOrNull(registered.city.unwrap(), "city"),
      demo: flag("the clinic is a demonstration"),
      demoExpiresAt: textOrNull(
        registered.demoExpiresAt.unwrap(),
        "time at which a demonstration clinic expires",
        "date-time",
      ),
    },
    category: clinicCategory,
    changes: (values) => values.id,
    run: (log, { id: clinicId, demo: isDemo, ...rest }, context) =>
      registerClinic(log, { clinicId, isDemo, ...rest }, context),
  }),
  defineCommand({
    name: "clinic suspend",
    summary: "Suspends a clinic. Its portal users and partners are refused access until it is reinstated.",
    example: `--id ${EXAMPLE} --reason 'Invoice overdue'`,
    options: { id: clinic, reason },
    category: clinicCategory,
    changes: (values) => values.id,
    run: (log, { id: clinicId, reason }, context) => suspendClinic(log, { clinicId, reason }, context),
  }),
  defineCommand({
    name: "clinic reinstate",
    summary: "Makes a suspended clinic active again.",
    example: `--id ${EXAMPLE}`,
    options: { id: clinic },
    category: clinicCategory,
    changes: (values) => values.id,
    run: (log, { id: clinicId }, context) => reinstateClinic(log, { clinicId }, context),
  }),
  defineCommand({
    name: "clinic close",
    summary: "Closes a clinic permanently. A closed clinic cannot be changed.",
    example: `--id ${EXAMPLE} --reason 'Practice given up'`,
    options: { id: clinic, reason },
    category: clinicCategory,
    changes: (values) => values.id,
    run: (log, { id: clinicId, reason }, context) => closeClinic(log, { clinicId, reason }, context),
  }),
  defineCommand({
    name: "clinic subscribe",
    summary: "Sets a clinic's subscription.",
    example: `--id ${EXAMPLE} --plan professional --status active --current-period-end 2027-01-01T00:00:00Z`,
    options: {
      id: clinic,
      plan: text(SubscriptionChanged.shape.plan, "name of the plan"),
      status: text(
        SubscriptionChanged.shape.status,
        "trialing, active, past_due, cancelled or expired",
        "status",
      ),
      currentPeriodEnd: textOrNull(
        SubscriptionChanged.shape.currentPeriodEnd.unwrap(),
        "end of the paid period",
        "date-time",
      ),
    },
    category: clinicCategory,
    changes: (values) => values.id,
    run: (log, { id: clinicId, ...subscription }, context) =>
      changeSubscription(log, { clinicId, ...subscription }, context),
  }),
  defineCommand({
    name: "clinic entitle",
    summary: "Enables one entitlement of a clinic, or disables it with --disabled.",
    example: `--id ${EXAMPLE} --key scheduling.advanced`,
    options: {
      id: clinic,
      key: text(EntitlementSet.shape.key, "name of the entitlement, such as scheduling.advanced"),
      disabled: flag("disable the entitlement"),
      limit: number(EntitlementSet.shape.limit.default(null), "quantity, for a counted entitlement"),
      effectiveUntil: textOrNull(
        EntitlementSet.shape.effectiveUntil.unwrap(),
        "time at which the entitlement ends",
        "date-time",
      ),
    },
    category: clinicCategory,
    changes: (values) => values.id,
    run: (log, { id: clinicId, disabled, ...entitlement }, context) =>
      setEntitlement(log, { clinicId, enabled: !disabled, ...entitlement }, context),
  }),
  defineCommand({
    name: "branch open",
    summary: "Opens a branch of a clinic. The first branch is the main branch.",
    example: `--clinic ${EXAMPLE} --name 'Old Town' --city Zug`,
    options: {
      id: newId("the new branch's id"),
      clinic,
      name: text(BranchOpened.shape.name, "name"),
      city: textOrNull(BranchOpened.shape.city.unwrap(), "city"),
    },
    category: clinicCategory,
    changes: (values) => values.clinic,
    run: (log, { id: branchId, clinic: clinicId, ...branch }, context) =>
      openBranch(log, { branchId, clinicId, ...branch }, context),
  }),
];
