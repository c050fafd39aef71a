import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import type { DataOf } from "../events/category.ts";
import { type ClinicEvent, clinicStreams } from "../events/clinic.ts";
import type { Environment } from "../events/fields.ts";
import type { PersonalDataCategory } from "../personal-data/person.ts";
import { registerIdempotently, requireExisting } from "../preconditions.ts";
import { requireCurrency, requireLocale, requireTimeZone } from "./locality.ts";

export type ClinicStatus = "active" | "suspended" | "closed";
export type ClinicRegistration = DataOf<ClinicEvent, "ClinicRegistered">;
type Subscription = Omit<DataOf<ClinicEvent, "SubscriptionChanged">, "clinicId">;
type Entitlement = Omit<DataOf<ClinicEvent, "EntitlementSet">, "clinicId" | "key">;

type RetentionRule = Omit<DataOf<ClinicEvent, "RetentionRuleSet">, "clinicId">;

interface Branch {
  id: string;
  name: string;
  city: string | null;
  isMain: boolean;
}

/** State of a clinic (tenant). */
export interface Clinic {
  id: string;
  environment: Environment;
  status: ClinicStatus;
  /** Branches in the order in which they were opened. The first branch is the main branch. */
  branches: Branch[];
  timezone: string;
  currency: string;
  /** Id of the application that owns the clinic as its sandbox; null if the clinic is not a sandbox. */
  sandboxOf: string | null;
  /** Current sandbox generation; 0 if the clinic is not a sandbox, or if the sandbox's own stream was not loaded. */
  sandboxGeneration: number;
  registration: ClinicRegistration;
  subscription: Subscription | null;
  entitlements: Record<string, Entitlement>;
  /** Months for which the clinic keeps customers' data after the last visit, for each category with a rule. */
  retentionMonths: Partial<Record<PersonalDataCategory, number>>;
}

export const clinicAggregate: Aggregate<typeof clinicStreams, Clinic> = {
  category: clinicStreams,
  evolve(state, event) {
    if (event.type === "ClinicRegistered") return toRegisteredClinic(event.data);
    if (!state) return undefined;
    switch (event.type) {
      case "ClinicSuspended":
        return { ...state, status: "suspended" };
      case "ClinicReinstated":
        return { ...state, status: "active" };
      case "ClinicClosed":
        return { ...state, status: "closed" };
      case "BranchOpened": {
        const { branchId: id, name, city, isMain } = event.data;
        return { ...state, branches: [...state.branches, { id, name, city, isMain }] };
      }
      case "SubscriptionChanged": {
        const { clinicId: _, ...subscription } = event.data;
        return { ...state, subscription };
      }
      case "EntitlementSet": {
        const { clinicId: _, key, ...entitlement } = event.data;
        return { ...state, entitlements: { ...state.entitlements, [key]: entitlement } };
      }
      case "RetentionRuleSet":
        return { ...state, retentionMonths: setRetentionMonths(state.retentionMonths, event.data) };
    }
  },
};

type ClinicDecision = Decision<Clinic, ClinicEvent>;

function toRegisteredClinic(registration: ClinicRegistration): Clinic {
  const { clinicId: id, environment, timezone, currency } = registration;
  return {
    id,
    environment,
    status: "active",
    branches: [],
    timezone,
    currency,
    sandboxOf: registration.sandboxOf ?? null,
    sandboxGeneration: 0,
    registration,
    subscription: null,
    entitlements: {},
    retentionMonths: {},
  };
}

export function decideRegisterClinic(data: ClinicRegistration): ClinicDecision {
  return (state) => {
    requireTimeZone(data.timezone);
    requireCurrency(data.currency);
    requireLocale(data.locale);
    if (data.demoExpiresAt !== null && !data.isDemo)
      throw new DomainError("expiry_without_demo", "only a demo clinic can expire");
    return registerIdempotently(state?.registration, { type: "ClinicRegistered", data }, "clinic");
  };
}

export function decideSuspendClinic(data: DataOf<ClinicEvent, "ClinicSuspended">): ClinicDecision {
  return (state) => (requireOpen(state).status === "suspended" ? [] : [{ type: "ClinicSuspended", data }]);
}

export function decideReinstateClinic(data: DataOf<ClinicEvent, "ClinicReinstated">): ClinicDecision {
  return (state) => (requireOpen(state).status === "active" ? [] : [{ type: "ClinicReinstated", data }]);
}

/** Closes a clinic permanently. */
export function decideCloseClinic(data: DataOf<ClinicEvent, "ClinicClosed">): ClinicDecision {
  return (state) => (requireExisting(state, "clinic").status === "closed" ? [] : [{ type: "ClinicClosed", data }]);
}

/** Opens a branch of a clinic. The first branch becomes the main branch permanently. */
export function decideOpenBranch(data: Omit<DataOf<ClinicEvent, "BranchOpened">, "isMain">): ClinicDecision {
  return (state) => {
    const existingBranch = requireExisting(state, "clinic").branches.find(({ id }) => id === data.branchId);
    if (existingBranch?.name === data.name && existingBranch.city === data.city) return [];
    const { branches } = requireOpen(state);
    if (existingBranch) throw new DomainError("branch_exists", "the id already belongs to another branch");
    return [{ type: "BranchOpened", data: { ...data, isMain: branches.length === 0 } }];
  };
}

export function decideChangeSubscription(data: DataOf<ClinicEvent, "SubscriptionChanged">): ClinicDecision {
  return (state) => {
    const { clinicId: _, ...subscription } = data;
    if (isEqual(requireExisting(state, "clinic").subscription, subscription)) return [];
    requireOpen(state);
    return [{ type: "SubscriptionChanged", data }];
  };
}

export function decideSetEntitlement(data: DataOf<ClinicEvent, "EntitlementSet">): ClinicDecision {
  return (state) => {
    const { clinicId: _, key, ...entitlement } = data;
    if (isEqual(requireExisting(state, "clinic").entitlements[key], entitlement)) return [];
    requireOpen(state);
    return [{ type: "EntitlementSet", data }];
  };
}

/** Sets or removes a retention rule. A closed clinic also needs rules, because it still has customers' data. */
export function decideSetRetentionRule(data: RetentionRule & { clinicId: string }): ClinicDecision {
  return (state) => {
    const { retentionMonths } = requireExisting(state, "clinic");
    return (retentionMonths[data.category] ?? null) === data.months ? [] : [{ type: "RetentionRuleSet", data }];
  };
}

/** Returns the retention rules after a change of one rule. */
export function setRetentionMonths(
  retentionMonths: Clinic["retentionMonths"],
  { category, months }: RetentionRule,
): Clinic["retentionMonths"] {
  const { [category]: _, ...otherRules } = retentionMonths;
  return months === null ? otherRules : { ...otherRules, [category]: months };
}

function requireOpen(state: Clinic | undefined): Clinic {
  const clinic = requireExisting(state, "clinic");
  if (clinic.status === "closed") throw new DomainError("clinic_closed", "the clinic is closed");
  return clinic;
}

/**
 * Refuses changes to a closed clinic. A command that changes nothing still succeeds, so that an earlier command can be
 * repeated.
 *
 * @throws {DomainError} `clinic_closed`
 */
export function restrictToOpenClinic<State, Event>(
  { status }: Clinic,
  decide: Decision<State, Event>,
): Decision<State, Event> {
  if (status !== "closed") return decide;
  return (state) => {
    try {
      if (decide(state).length === 0) return [];
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
    }
    throw new DomainError("clinic_closed", "the clinic is closed");
  };
}

/**
 * Requires that a clinic has the given branch.
 *
 * @throws {DomainError} `branch_not_found`
 */
export function requireBranch(clinic: Clinic, branchId: string): Branch {
  const branch = clinic.branches.find(({ id }) => id === branchId);
  if (!branch) throw new DomainError("branch_not_found", "the clinic has no such branch");
  return branch;
}

/**
 * Refuses a command that would add data to a sandbox. A sandbox contains only its fixture and the data of its
 * application, because a reset could not remove other data.
 *
 * @throws {DomainError} `clinic_is_a_sandbox`
 */
export function refuseSandbox({ sandboxOf }: Clinic): void {
  if (sandboxOf === null) return;
  throw new DomainError("clinic_is_a_sandbox", "a sandbox contains only its fixture and the data of its application");
}
