import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { type AuditorEvent, auditorCategory } from "../events/audit.ts";
import { requireExisting } from "../preconditions.ts";
import type { Instant } from "../time/rfc3339.ts";

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

type AuditorDecision = Decision<Auditor, AuditorEvent>;

/**
 * An auditor gets one credential, with the registration; who needs another one is registered anew, so that a credential
 * and its bounds are one fact.
 *
 * @param now milliseconds since 1970
 * @throws {DomainError} `auditor_exists`, `expiry_passed`
 */
export function decideRegisterAuditor(
  data: { auditorId: string; name: string; clinicIds: string[] | null; expiresAt: Instant | null },
  secretHash: string,
  now: number,
): AuditorDecision {
  return (state) => {
    if (state) throw new DomainError("auditor_exists", "the id belongs to another auditor already");
    if (data.expiresAt !== null && Date.parse(data.expiresAt) <= now) {
      throw new DomainError("expiry_passed", "the credential would have expired already");
    }
    const clinicIds = data.clinicIds && [...new Set(data.clinicIds)];
    return [{ type: "AuditorRegistered", data: { ...data, clinicIds, secretHash } }];
  };
}

/** A revoked auditor stays revoked; again changes nothing. @throws {DomainError} `auditor_not_found` */
export function decideRevokeAuditor(reason: string | null): AuditorDecision {
  return (state) => {
    const { id: auditorId, revoked } = requireExisting(state, "auditor");
    return revoked ? [] : [{ type: "AuditorRevoked", data: { auditorId, reason } }];
  };
}
