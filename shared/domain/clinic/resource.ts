import { type Aggregate, createClinicRecorder, type Decision, defineAggregate } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import type { DataOf } from "../events/category.ts";
import { type ResourceEvent, resourceStreams } from "../events/clinic.ts";
import { registerIdempotently } from "../preconditions.ts";
import { type Clinic, requireBranch } from "./clinic.ts";

type ResourceAddition = DataOf<ResourceEvent, "ResourceAdded">;
export type AvailabilityRule = Omit<DataOf<ResourceEvent, "AvailabilityRuleSet">, "resourceId">;

/** State of a bookable resource of a branch, with its availability rules. */
export interface Resource {
  id: string;
  clinicId: string;
  branchId: string;
  active: boolean;
  addition: ResourceAddition;
  rules: Record<string, AvailabilityRule>;
}

export const resourceAggregate: Aggregate<typeof resourceStreams, Resource> = defineAggregate(
  resourceStreams,
  {
    ResourceAdded(addition) {
      const { resourceId: id, clinicId, branchId } = addition;
      return { id, clinicId, branchId, active: true, addition, rules: {} };
    },
  },
  {
    ResourceRetired: () => ({ active: false }),
    AvailabilityRuleSet: ({ resourceId: _, ...rule }, { rules }) => ({ rules: { ...rules, [rule.ruleId]: rule } }),
    AvailabilityRuleRemoved({ ruleId }, { rules: { [ruleId]: _, ...rules } }) {
      return { rules };
    },
  },
);

/** Adds a resource to a branch. The default time zone of a resource is the clinic's time zone. */
export function addResource(
  addition: Omit<ResourceAddition, "timezone"> & { timezone: string | null },
  clinic: Clinic,
): Decision<Resource, ResourceEvent> {
  return (state) => {
    const timezone = addition.timezone ?? clinic.timezone;
    requireBranch(clinic, addition.branchId);
    const data = { ...addition, timezone };
    return registerIdempotently(state?.addition, { type: "ResourceAdded", data }, "resource");
  };
}

const recordIf = createClinicRecorder(resourceAggregate, "resource");

export const retireResource = recordIf("ResourceRetired", ({ active }) => active);

/**
 * Adds an availability rule to a resource, or replaces the rule with the same id. Start and end are on the same day,
 * in the resource's time zone. A period that contains midnight needs two rules.
 */
export const setRule = recordIf("AvailabilityRuleSet", ({ active, rules }, { resourceId: _, ...rule }) => {
  if (isEqual(rules[rule.ruleId], rule)) return false;
  if (!active) throw new DomainError("resource_retired", "the resource is retired");
  if (rule.endsAt <= rule.startsAt)
    throw new DomainError(
      "rule_ends_before_start",
      "the rule must end after it starts, at the latest at 24:00:00 of the same day",
    );
  if (rule.validFrom !== null && rule.validUntil !== null && rule.validUntil < rule.validFrom)
    throw new DomainError("rule_never_valid", "the last valid day must not be before the first valid day");
  return true;
});

export const removeRule = recordIf("AvailabilityRuleRemoved", ({ rules }, { ruleId }) => ruleId in rules);
