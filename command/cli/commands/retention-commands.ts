import { clinicCategory } from "../../../shared/domain/events/clinic.ts";
import { setRetentionRule } from "../../operations/clinic-operations.ts";
import { type Command, defineCommand } from "../framework/command.ts";
import { clinic, option } from "../framework/option.ts";

const { category, months } = clinicCategory.events.RetentionRuleSet.shape;
const EXAMPLE_CLINIC_ARGUMENT = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";

const ruleOptions = { clinic, category: option.text(category, "contact, animal or notes", "category") };

export const retentionCommands: Command[] = [
  defineCommand(clinicCategory, {
    name: "retention set",
    summary: "Sets how long a clinic keeps a category of personal data after a customer's last visit.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} --category notes --months 60`,
    options: { ...ruleOptions, months: option.number(months.unwrap(), "length of the period in months") },
    getStreamId: (values) => values.clinic,
    run: (log, { clinic: clinicId, ...rule }, context) => setRetentionRule(log, { clinicId, ...rule }, context),
  }),
  defineCommand(clinicCategory, {
    name: "retention remove",
    summary: "Removes a retention rule. The clinic then keeps the category of personal data without a limit.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} --category notes`,
    options: ruleOptions,
    getStreamId: (values) => values.clinic,
    run: (log, { clinic: clinicId, category }, context) =>
      setRetentionRule(log, { clinicId, category, months: null }, context),
  }),
];
