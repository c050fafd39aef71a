import { defineReadModel, toColumns } from "../engine/read-model.ts";
import { resources } from "./resources.ts";

export const availabilityRules = defineReadModel({
  table: "availability_rule",
  columns: {
    rule_id: "uuid",
    clinic_id: "uuid",
    resource_id: "uuid",
    weekday: "numeric",
    starts_at: "time",
    ends_at: "time",
    valid_from: "date",
    valid_until: "date",
    rule_type: "text",
    recurrence: "json",
  },
  nullable: ["valid_from", "valid_until", "recurrence"],
  primaryKey: ["rule_id"],
  indexes: ["resource_id, weekday, starts_at"],
  renderedColumns: {
    availability_json: (row) => ({
      id: row.rule_id,
      resource_id: row.resource_id,
      weekday: row.weekday,
      starts_at: row.starts_at,
      ends_at: row.ends_at,
      valid_from: row.valid_from,
      valid_until: row.valid_until,
      rule_type: row.rule_type,
      recurrence: row.recurrence,
    }),
  },
  sandboxCondition: () => "clinic_id = $1::uuid",
  references: [resources],
  key: (event) => [event.data.ruleId],
  on: {
    AvailabilityRuleSet: (_, { data }, findRows) => {
      const resource = findRows(resources).after;
      return resource && { ...toColumns(data), clinic_id: resource.clinic_id };
    },
    AvailabilityRuleRemoved: () => undefined,
  },
});
