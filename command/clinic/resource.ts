import { type ResourceEvent, resourceCategory } from "../../shared/events/clinic.ts";
import type { Aggregate } from "../handle.ts";
import type { DataOf } from "./data-of.ts";

export type ResourceAddition = DataOf<ResourceEvent, "ResourceAdded">;
export type AvailabilityRule = Omit<DataOf<ResourceEvent, "AvailabilityRuleSet">, "resourceId">;

/** A bookable resource of a branch and the rules of its availability. */
export interface Resource {
  id: string;
  clinicId: string;
  branchId: string;
  active: boolean;
  addition: ResourceAddition;
  rules: Record<string, AvailabilityRule>;
}

export const resourceAggregate: Aggregate<typeof resourceCategory, Resource> = {
  category: resourceCategory,
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
