import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import type { DataOf } from "../events/category.ts";
import { type ResourceEvent, resourceStreams } from "../events/clinic.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";
import { DAY_MS, toLocalMs } from "../time/local-time.ts";
import type { Instant } from "../time/rfc3339.ts";
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

/**
 * Creates a predicate that returns true for rules that are valid on at least one day of a time window. The days are
 * those of the resource's time zone.
 *
 * @param window `from` inclusive, `to` exclusive
 */
export function createValidityFilter(window: { from: Instant; to: Instant }) {
  const localWindows = new Map<string, { firstMs: number; lastMs: number }>();
  return (timeZone: string, validFrom: string | null, validUntil: string | null): boolean => {
    if (validFrom === null && validUntil === null) return true;
    const localWindow = localWindows.get(timeZone) ?? {
      firstMs: toLocalMs(timeZone, Date.parse(window.from)),
      lastMs: toLocalMs(timeZone, Date.parse(window.to) - 1),
    };
    localWindows.set(timeZone, localWindow);
    if (validFrom !== null && Date.parse(validFrom) > localWindow.lastMs) return false;
    return validUntil === null || Date.parse(validUntil) + DAY_MS > localWindow.firstMs;
  };
}

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
