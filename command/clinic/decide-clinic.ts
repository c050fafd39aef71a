import { isDeepStrictEqual } from "node:util";
import type { ClinicEvent } from "../../shared/events/clinic.ts";
import { DomainError } from "../handle.ts";
import type { Clinic, ClinicRegistration } from "./clinic.ts";
import type { DataOf } from "./data-of.ts";
import { requireCurrency, requireLocale, requireTimeZone } from "./locality.ts";
import { registerOnce } from "./register-once.ts";

type Decision = (state: Clinic | undefined) => ClinicEvent[];

/** What may be decided about a clinic. Each refuses with {@link DomainError}; what is so already gives no event. */

export function decideRegisterClinic(data: ClinicRegistration): Decision {
  return (state) => {
    requireTimeZone(data.timezone);
    requireCurrency(data.currency);
    requireLocale(data.locale);
    if (data.demoExpiresAt !== null && !data.isDemo)
      throw new DomainError("expiry_without_demo", "only a demo clinic expires");
    return registerOnce(state?.registration, { type: "ClinicRegistered", data }, "clinic");
  };
}

export function decideSuspendClinic(data: DataOf<ClinicEvent, "ClinicSuspended">): Decision {
  return (state) => (requireOpen(state).status === "suspended" ? [] : [{ type: "ClinicSuspended", data }]);
}

export function decideReinstateClinic(data: DataOf<ClinicEvent, "ClinicReinstated">): Decision {
  return (state) => (requireOpen(state).status === "active" ? [] : [{ type: "ClinicReinstated", data }]);
}

/** A clinic that is closed stays closed. */
export function decideCloseClinic(data: DataOf<ClinicEvent, "ClinicClosed">): Decision {
  return (state) => (known(state).status === "closed" ? [] : [{ type: "ClinicClosed", data }]);
}

/** The first branch is the clinic's main one, and stays the only one. */
export function decideOpenBranch(data: Omit<DataOf<ClinicEvent, "BranchOpened">, "isMain">): Decision {
  return (state) => {
    const same = known(state).branches.find(({ id }) => id === data.branchId);
    if (same?.name === data.name && same.city === data.city) return [];
    const { branches } = requireOpen(state);
    if (same) throw new DomainError("branch_exists", "the id belongs to another branch already");
    return [{ type: "BranchOpened", data: { ...data, isMain: branches.length === 0 } }];
  };
}

export function decideChangeSubscription(data: DataOf<ClinicEvent, "SubscriptionChanged">): Decision {
  return (state) => {
    const { clinicId: _, ...subscription } = data;
    if (isDeepStrictEqual(known(state).subscription, subscription)) return [];
    requireOpen(state);
    return [{ type: "SubscriptionChanged", data }];
  };
}

export function decideSetEntitlement(data: DataOf<ClinicEvent, "EntitlementSet">): Decision {
  return (state) => {
    const { clinicId: _, key, ...entitlement } = data;
    if (isDeepStrictEqual(known(state).entitlements[key], entitlement)) return [];
    requireOpen(state);
    return [{ type: "EntitlementSet", data }];
  };
}

function known(state: Clinic | undefined): Clinic {
  if (!state) throw new DomainError("clinic_not_found", "there is no such clinic");
  return state;
}

function requireOpen(state: Clinic | undefined): Clinic {
  const clinic = known(state);
  if (clinic.status === "closed") throw new DomainError("clinic_closed", "the clinic is closed");
  return clinic;
}
