import { type ClinicEvent, clinicCategory } from "../../shared/events/clinic.ts";
import type { Environment } from "../../shared/events/fields.ts";
import type { Aggregate } from "../handle.ts";
import type { DataOf } from "./data-of.ts";

export type ClinicStatus = "active" | "suspended" | "closed";
export type ClinicRegistration = DataOf<ClinicEvent, "ClinicRegistered">;
export type Subscription = Omit<DataOf<ClinicEvent, "SubscriptionChanged">, "clinicId">;
export type Entitlement = Omit<DataOf<ClinicEvent, "EntitlementSet">, "clinicId" | "key">;

export interface Branch {
  id: string;
  name: string;
  city: string | null;
  isMain: boolean;
}

/** A clinic (tenant) as its events tell it. */
export interface Clinic {
  id: string;
  environment: Environment;
  status: ClinicStatus;
  /** In the order in which they were opened; the first is the main one. */
  branches: Branch[];
  timezone: string;
  currency: string;
  /** The application whose sandbox it is; null for every other clinic. */
  sandboxOf: string | null;
  /** The sandbox's generation, where the clinic was loaded with it; 0 for a clinic that is none. */
  sandboxGeneration: number;
  registration: ClinicRegistration;
  subscription: Subscription | null;
  entitlements: Record<string, Entitlement>;
}

export const clinicAggregate: Aggregate<typeof clinicCategory, Clinic> = {
  category: clinicCategory,
  evolve(state, event) {
    if (event.type === "ClinicRegistered") return registered(event.data);
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
    }
  },
};

function registered(registration: ClinicRegistration): Clinic {
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
  };
}
