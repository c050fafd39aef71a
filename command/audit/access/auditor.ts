import { auditorCategory } from "../../../shared/events/audit.ts";
import type { Instant } from "../../../shared/time/rfc3339.ts";
import type { Aggregate } from "../../handle.ts";

/** An auditor as the events tell it. */
export interface Auditor {
  id: string;
  name: string;
  /** SHA-256 of the credential's secret, hex. */
  secretHash: string;
  /** Null: every clinic, and what belongs to none. */
  clinicIds: string[] | null;
  expiresAt: Instant | null;
  revoked: boolean;
}

export const auditorAggregate: Aggregate<typeof auditorCategory, Auditor> = {
  category: auditorCategory,
  evolve(state, event) {
    if (event.type === "AuditorRegistered") {
      const { auditorId: id, ...registered } = event.data;
      return { id, ...registered, revoked: false };
    }
    return state && { ...state, revoked: true };
  },
};
