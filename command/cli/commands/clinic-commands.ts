import { option } from "../../../shared/command-line/option.ts";
import { clinicStreams } from "../../../shared/domain/events/clinic.ts";
import {
  changeSubscription,
  closeClinic,
  openBranch,
  registerClinic,
  reinstateClinic,
  setEntitlement,
  suspendClinic,
} from "../../operations/clinic-operations.ts";
import { type DomainCommand, defineDomainCommand } from "../domain-command.ts";
import { clinic, timeZoneSchema } from "../options.ts";

const { ClinicRegistered, ClinicSuspended, BranchOpened, SubscriptionChanged, EntitlementSet } = clinicStreams.events;
const clinicFields = ClinicRegistered.shape;
const EXAMPLE_CLINIC_ID = "0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";

const reason = option.text(ClinicSuspended.shape.reason, "reason");

export const clinicCommands: DomainCommand[] = [
  defineDomainCommand(clinicStreams, {
    name: "clinic register",
    summary: "Registers a clinic. The new clinic is active and has no branches.",
    example: "--slug lake-vets --name 'Lake Vets' --timezone Europe/Zurich --currency CHF --locale de-CH --city Zug",
    options: {
      id: option.newId("the new clinic's id"),
      environment: option.text(clinicFields.environment.default("production"), "sandbox or production", "name"),
      slug: option.text(clinicFields.slug, "short name for URLs: lower-case letters, digits and hyphens"),
      name: option.text(clinicFields.name, "name"),
      timezone: option.text(timeZoneSchema, "IANA time zone, such as Europe/Zurich", "zone"),
      currency: option.text(clinicFields.currency, "ISO 4217 code, such as CHF", "code"),
      locale: option.text(clinicFields.locale, "BCP 47 language tag, such as de-CH", "tag"),
      city: option.nullableText(clinicFields.city, "city"),
      demo: option.flag("mark the clinic as a demo"),
      demoExpiresAt: option.nullableText(
        clinicFields.demoExpiresAt,
        "time at which a demo clinic expires",
        "date-time",
      ),
    },
    run: (log, { id: clinicId, demo: isDemo, ...details }, context) =>
      registerClinic(log, { clinicId, isDemo, ...details }, context),
  }),
  defineDomainCommand(clinicStreams, {
    name: "clinic suspend",
    summary: "Suspends a clinic. Until the clinic is reinstated, its portal users and partners have no access.",
    example: `--id ${EXAMPLE_CLINIC_ID} --reason 'Invoice overdue'`,
    options: { id: clinic, reason },
    run: (log, { id: clinicId, reason }, context) => suspendClinic(log, { clinicId, reason }, context),
  }),
  defineDomainCommand(clinicStreams, {
    name: "clinic reinstate",
    summary: "Makes a suspended clinic active again.",
    example: `--id ${EXAMPLE_CLINIC_ID}`,
    options: { id: clinic },
    run: (log, { id: clinicId }, context) => reinstateClinic(log, { clinicId }, context),
  }),
  defineDomainCommand(clinicStreams, {
    name: "clinic close",
    summary: "Closes a clinic permanently. A closed clinic cannot be changed.",
    example: `--id ${EXAMPLE_CLINIC_ID} --reason 'Practice given up'`,
    options: { id: clinic, reason },
    run: (log, { id: clinicId, reason }, context) => closeClinic(log, { clinicId, reason }, context),
  }),
  defineDomainCommand(clinicStreams, {
    name: "clinic subscribe",
    summary: "Sets a clinic's subscription.",
    example: `--id ${EXAMPLE_CLINIC_ID} --plan professional --status active --current-period-end 2027-01-01T00:00:00Z`,
    options: {
      id: clinic,
      plan: option.text(SubscriptionChanged.shape.plan, "name of the plan"),
      status: option.text(
        SubscriptionChanged.shape.status,
        "trialing, active, past_due, cancelled or expired",
        "status",
      ),
      currentPeriodEnd: option.nullableText(
        SubscriptionChanged.shape.currentPeriodEnd,
        "end of the paid period",
        "date-time",
      ),
    },
    run: (log, { id: clinicId, ...subscription }, context) =>
      changeSubscription(log, { clinicId, ...subscription }, context),
  }),
  defineDomainCommand(clinicStreams, {
    name: "clinic entitle",
    summary: "Enables an entitlement of a clinic. With --disabled, disables the entitlement.",
    example: `--id ${EXAMPLE_CLINIC_ID} --key scheduling.advanced`,
    options: {
      id: clinic,
      key: option.text(EntitlementSet.shape.key, "name of the entitlement, such as scheduling.advanced"),
      disabled: option.flag("disable the entitlement instead of enabling it"),
      limit: option.number(EntitlementSet.shape.limit.default(null), "quantity of a counted entitlement"),
      effectiveUntil: option.nullableText(
        EntitlementSet.shape.effectiveUntil,
        "time at which the entitlement ends",
        "date-time",
      ),
    },
    run: (log, { id: clinicId, disabled: isDisabled, ...entitlement }, context) =>
      setEntitlement(log, { clinicId, enabled: !isDisabled, ...entitlement }, context),
  }),
  defineDomainCommand(clinicStreams, {
    name: "branch open",
    summary: "Opens a branch of a clinic. The first branch is the main branch.",
    example: `--clinic ${EXAMPLE_CLINIC_ID} --name 'Old Town' --city Zug`,
    options: {
      id: option.newId("the new branch's id"),
      clinic,
      name: option.text(BranchOpened.shape.name, "name"),
      city: option.nullableText(BranchOpened.shape.city, "city"),
    },
    getStreamId: (values) => values.clinic,
    run: (log, { id: branchId, clinic: clinicId, ...branch }, context) =>
      openBranch(log, { branchId, clinicId, ...branch }, context),
  }),
];
