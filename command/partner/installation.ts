import { installationCategory, type Scope } from "../../shared/events/partner.ts";
import type { Aggregate } from "../handle.ts";

/** An application's access to one clinic, as its events tell it. */
export interface Installation {
  id: string;
  applicationId: string;
  clinicId: string;
  status: "requested" | "approved" | "revoked";
  /** Asked for while requested, granted from the approval on. */
  scopes: Scope[];
  /** Null: every branch of the clinic. */
  branchIds: string[] | null;
  rateLimitPerMinute: number;
}

/** Requests a minute where nothing else was agreed. */
export const DEFAULT_RATE_LIMIT = 120;

export const installationAggregate: Aggregate<typeof installationCategory, Installation> = {
  category: installationCategory,
  evolve(state, event) {
    switch (event.type) {
      case "InstallationRequested": {
        const { installationId: id, ...asked } = event.data;
        const rest = { branchIds: null, rateLimitPerMinute: DEFAULT_RATE_LIMIT };
        return { id, ...asked, ...rest, status: "requested" };
      }
      case "InstallationApproved": {
        const { installationId: id, approvedBy: _, ...granted } = event.data;
        return { id, ...granted, status: "approved" };
      }
    }
    if (!state) return undefined;
    switch (event.type) {
      case "InstallationNarrowed": {
        const { scopes, branchIds } = event.data;
        return { ...state, scopes, branchIds };
      }
      case "InstallationRateLimitAgreed":
        return { ...state, rateLimitPerMinute: event.data.rateLimitPerMinute };
      case "InstallationRevoked":
        return { ...state, status: "revoked" };
    }
  },
};
