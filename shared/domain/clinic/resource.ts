import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import type { DataOf } from "../events/category.ts";
import { type ResourceEvent, resourceStreams } from "../events/clinic.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";
import { type Clinic, requireBranch } from "./clinic.ts";
import { requireTimeZone } from "./locality.ts";

type ResourceAddition = DataOf<ResourceEvent, "ResourceAdded">;
type AvailabilityRule = Omit<DataOf<ResourceEvent, "AvailabilityRuleSet">, "resourceId">;

/** State of a bookable resource of a branch, with its availability rules. */
export interface Resource {
  id: string;
  clinicId: string;
  branchId: string;
  active: boolean;
  addition: ResourceAddition;
  rules: Record<string, AvailabilityRule>;
}

export const resourceAggregate: Aggregate<typeof resourceStreams, Resource> = {
  category: resourceStreams,
  evolve(state, event) {
    if (event.type === "ResourceAdded") {
      const { resourceId: id, clinicId, branchId } = event.data;
      return { id, clinicId, branchId, active: true, addition: event.data, rules: {} };
    }
    if (!state) return undefined;
    switch (event.type) {
      case "ResourceRetired":
        return { ...state, active: false };
      case "AvailabilityRuleSet": {
        const { resourceId: _, ...rule } = event.data;
        return { ...state, rules: { ...state.rules, [rule.ruleId]: rule } };
      }
      case "AvailabilityRuleRemoved": {
        const { [event.data.ruleId]: _, ...rules } = state.rules;
        return { ...state, rules };
      }
    }
  },
};

type ResourceDecision = Decision<Resource, ResourceEvent>;

/** Identifies a resource of a clinic. */
type ResourceRef = { clinicId: string; resourceId: string };

/** Adds a resource to a branch. The default time zone of a resource is the clinic's time zone. */
export function decideAddResource(
  addition: Omit<ResourceAddition, "timezone"> & { timezone: string | null },
  clinic: Clinic,
): ResourceDecision {
  return (state) => {
    const timezone = addition.timezone ?? clinic.timezone;
    requireTimeZone(timezone);
    requireBranch(clinic, addition.branchId);
    const data = { ...addition, timezone };
    return registerIdempotently(state?.addition, { type: "ResourceAdded", data }, "resource");
  };
}

export function decideRetireResource({ clinicId, resourceId }: ResourceRef): ResourceDecision {
  return (state) => {
    if (!requireOwnedBy(clinicId, state, "resource").active) return [];
    return [{ type: "ResourceRetired", data: { resourceId } }];
  };
}

/**
 * Adds an availability rule to a resource, or replaces the rule with the same id. Start and end are on the same day,
 * in the resource's time zone. A period that contains midnight needs two rules.
 */
export function decideSetRule(change: ResourceRef & { rule: AvailabilityRule }): ResourceDecision {
  return (state) => {
    const { clinicId, resourceId, rule } = change;
    const resource = requireOwnedBy(clinicId, state, "resource");
    if (isEqual(resource.rules[rule.ruleId], rule)) return [];
    if (!resource.active) throw new DomainError("resource_retired", "the resource is retired");
    if (rule.endsAt <= rule.startsAt)
      throw new DomainError(
        "rule_ends_before_start",
        "the rule must end after it starts, at the latest at 24:00:00 of the same day",
      );
    if (rule.validFrom !== null && rule.validUntil !== null && rule.validUntil < rule.validFrom)
      throw new DomainError("rule_never_valid", "the last valid day must not be before the first valid day");
    return [{ type: "AvailabilityRuleSet", data: { resourceId, ...rule } }];
  };
}

export function decideRemoveRule(change: ResourceRef & { ruleId: string }): ResourceDecision {
  return (state) => {
    const { clinicId, resourceId, ruleId } = change;
    if (!requireOwnedBy(clinicId, state, "resource").rules[ruleId]) return [];
    return [{ type: "AvailabilityRuleRemoved", data: { resourceId, ruleId } }];
  };
}
