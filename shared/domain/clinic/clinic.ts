import { type Aggregate, createRecorder, type Decision, defineAggregate } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import type { DataOf } from "../events/category.ts";
import { type ClinicEvent, clinicStreams } from "../events/clinic.ts";
import type { Environment } from "../events/fields.ts";
import type { PersonalDataCategory } from "../personal-data/person.ts";
import { registerIdempotently, requireExisting } from "../preconditions.ts";
import { DEFAULT_GRID_MINUTES } from "../scheduling/free-times.ts";

export type ClinicStatus = "active" | "suspended" | "closed";
export type ClinicRegistration = DataOf<ClinicEvent, "ClinicRegistered">;
type Subscription = Omit<DataOf<ClinicEvent, "SubscriptionChanged">, "clinicId">;
type Entitlement = Omit<DataOf<ClinicEvent, "EntitlementSet">, "clinicId" | "key">;

type BookingRules = Omit<DataOf<ClinicEvent, "BookingRulesSet">, "clinicId">;

type RetentionRule = Omit<DataOf<ClinicEvent, "RetentionRuleSet">, "clinicId">;

type Branch = Omit<DataOf<ClinicEvent, "BranchOpened">, "clinicId" | "branchId"> & { id: string };

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
  /** Current sandbox generation, which `resolveSandbox` adds. 0 before that, and if the clinic is not a sandbox. */
  sandboxGeneration: number;
  registration: ClinicRegistration;
  subscription: Subscription | null;
  entitlements: Record<string, Entitlement>;
  bookingRules: BookingRules;
  /** Retention rules: months for which the clinic keeps customers' data after the last visit, by category. */
  retentionMonths: Partial<Record<PersonalDataCategory, number>>;
}

export const clinicAggregate: Aggregate<typeof clinicStreams, Clinic> = defineAggregate(
  clinicStreams,
  {
    ClinicRegistered(registration) {
      const { clinicId: id, environment, timezone, currency, sandboxOf = null } = registration;
      return {
        ...{ id, environment, timezone, currency, sandboxOf, registration },
        status: "active",
        branches: [],
        sandboxGeneration: 0,
        subscription: null,
        entitlements: {},
        bookingRules: { gridMinutes: DEFAULT_GRID_MINUTES, confirmsBookings: false },
        retentionMonths: {},
      };
    },
  },
  {
    ClinicSuspended: () => ({ status: "suspended" }),
    ClinicReinstated: () => ({ status: "active" }),
    ClinicClosed: () => ({ status: "closed" }),
    BranchOpened: ({ clinicId: _, branchId: id, ...branch }, { branches }) => ({
      branches: [...branches, { id, ...branch }],
    }),
    SubscriptionChanged: ({ clinicId: _, ...subscription }) => ({ subscription }),
    EntitlementSet: ({ clinicId: _, key, ...entitlement }, { entitlements }) => ({
      entitlements: { ...entitlements, [key]: entitlement },
    }),
    BookingRulesSet: ({ clinicId: _, ...bookingRules }) => ({ bookingRules }),
    RetentionRuleSet: (rule, { retentionMonths }) => ({ retentionMonths: setRetentionMonths(retentionMonths, rule) }),
  },
);

type ClinicDecision = Decision<Clinic, ClinicEvent>;

export function registerClinic(data: ClinicRegistration): ClinicDecision {
  return (state) => {
    if (data.demoExpiresAt !== null && !data.isDemo)
      throw new DomainError("expiry_without_demo", "only a demo clinic can expire");
    return registerIdempotently(state?.registration, { type: "ClinicRegistered", data }, "clinic");
  };
}

const recordIf = createRecorder(clinicAggregate, (state) => requireExisting(state, "clinic"));

export const suspendClinic = recordIf("ClinicSuspended", (clinic) => changesOpen(clinic, clinic.status, "suspended"));

export const reinstateClinic = recordIf("ClinicReinstated", (clinic) => changesOpen(clinic, clinic.status, "active"));

/** Closes a clinic permanently. */
export const closeClinic = recordIf("ClinicClosed", ({ status }) => status !== "closed");

/** Opens a branch of a clinic. The first branch becomes the main branch permanently. */
export function openBranch(data: Omit<DataOf<ClinicEvent, "BranchOpened">, "isMain">): ClinicDecision {
  return (state) => {
    const clinic = requireExisting(state, "clinic");
    const existingBranch = clinic.branches.find(({ id }) => id === data.branchId);
    if (existingBranch?.name === data.name && existingBranch.city === data.city) return [];
    requireOpen(clinic);
    if (existingBranch) throw new DomainError("branch_exists", "the id already belongs to another branch");
    return [{ type: "BranchOpened", data: { ...data, isMain: clinic.branches.length === 0 } }];
  };
}

export const changeSubscription = recordIf("SubscriptionChanged", (clinic, { clinicId: _, ...subscription }) =>
  changesOpen(clinic, clinic.subscription, subscription),
);

export const setEntitlement = recordIf("EntitlementSet", (clinic, { clinicId: _, key, ...entitlement }) =>
  changesOpen(clinic, clinic.entitlements[key], entitlement),
);

export const setBookingRules = recordIf("BookingRulesSet", (clinic, { clinicId: _, ...bookingRules }) =>
  changesOpen(clinic, clinic.bookingRules, bookingRules),
);

/**
 * Returns true if an entitlement of a clinic is in effect.
 *
 * @param now milliseconds since 1970
 */
export function isEntitled({ entitlements }: Clinic, key: string, now: number): boolean {
  const entitlement = entitlements[key];
  const until = entitlement?.effectiveUntil ?? null;
  return entitlement?.enabled === true && (until === null || Date.parse(until) > now);
}

/** Sets or removes a retention rule. Also possible for a closed clinic, which still has customers' data. */
export const setRetentionRule = recordIf("RetentionRuleSet", ({ retentionMonths }, { category, months }) => {
  return (retentionMonths[category] ?? null) !== months;
});

/** Returns the retention rules after a change of one rule. */
export function setRetentionMonths(
  retentionMonths: Clinic["retentionMonths"],
  { category, months }: RetentionRule,
): Clinic["retentionMonths"] {
  const { [category]: _, ...otherRules } = retentionMonths;
  return months === null ? otherRules : { ...otherRules, [category]: months };
}

/** Returns true if the new value differs from the old one. @throws {DomainError} `clinic_closed` if it does */
function changesOpen(clinic: Clinic, value: unknown, newValue: unknown): boolean {
  return !isEqual(value, newValue) && requireOpen(clinic) === clinic;
}

function requireOpen(clinic: Clinic): Clinic {
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
