import { option } from "../../../shared/command-line/option.ts";
import { clinicCategory } from "../../../shared/domain/events/clinic.ts";
import { setRetentionRule } from "../../operations/clinic-operations.ts";
import { type DomainCommand, defineDomainCommand } from "../domain-command.ts";
import { clinic } from "../options.ts";

const { category, months } = clinicCategory.events.RetentionRuleSet.shape;
const EXAMPLE_CLINIC_ARGUMENT = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";

const ruleOptions = { clinic, category: option.text(category, "contact, animal or notes", "category") };

export const retentionCommands: DomainCommand[] = [
  defineDomainCommand(clinicCategory, {
    name: "retention set",
    summary: "Sets how long a clinic keeps a category of personal data after a customer's last visit.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} --category notes --months 60`,
    options: { ...ruleOptions, months: option.number(months.unwrap(), "length of the period in months") },
    getStreamId: (values) => values.clinic,
    run: (log, { clinic: clinicId, ...rule }, context) => setRetentionRule(log, { clinicId, ...rule }, context),
  }),
  defineDomainCommand(clinicCategory, {
    name: "retention remove",
    summary: "Removes a retention rule. The clinic then keeps the category of personal data without a limit.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} --category notes`,
    options: ruleOptions,
    getStreamId: (values) => values.clinic,
    run: (log, { clinic: clinicId, category }, context) =>
      setRetentionRule(log, { clinicId, category, months: null }, context),
  }),
];
