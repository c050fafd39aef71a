import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { type AuditorEvent, auditorStreams } from "../events/audit.ts";
import { ERASED_TEXT } from "../personal-data/declaration.ts";
import {
  addErasure,
  decideErasure,
  type ErasedData,
  type Erasure,
  isErased,
  NOTHING_ERASED,
} from "../personal-data/erasure.ts";
import { requireExisting } from "../preconditions.ts";
import type { Instant } from "../time/rfc3339.ts";

/** State of an auditor. */
export interface Auditor extends ErasedData {
  id: string;
  /** `(erased)` after an erasure of the contact data. */
  name: string;
  /** SHA-256 of the credential's secret, hex. */
  secretHash: string;
  /** Clinics whose records the auditor may read; null for all clinics. */
  clinicIds: string[] | null;
  expiresAt: Instant | null;
  revoked: boolean;
}

export const auditorAggregate: Aggregate<typeof auditorStreams, Auditor> = {
  category: auditorStreams,
  evolve(state, event) {
    if (event.type === "AuditorRegistered") {
      const { auditorId: id, ...registration } = event.data;
      return { id, ...registration, revoked: false, ...NOTHING_ERASED };
    }
    if (!state) return undefined;
    if (event.type === "AuditorRevoked") return { ...state, revoked: true };
    const erasedData = addErasure(state, event.data);
    return { ...state, ...erasedData, name: isErased(erasedData) ? ERASED_TEXT : state.name };
  },
  personOf: ({ id }) => ({ type: "auditor", id }),
};

type AuditorDecision = Decision<Auditor, AuditorEvent>;

/**
 * Registers an auditor with one credential. The credential, its clinics and its expiry are fixed. If you need other
 * values, register another auditor.
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
    if (state) throw new DomainError("auditor_exists", "the id already belongs to another auditor");
    if (data.expiresAt !== null && Date.parse(data.expiresAt) <= now) {
      throw new DomainError("expiry_passed", "the expiry time is in the past");
    }
    const clinicIds = data.clinicIds && [...new Set(data.clinicIds)];
    return [{ type: "AuditorRegistered", data: { ...data, clinicIds, secretHash } }];
  };
}

/**
 * Revokes an auditor permanently. Revoking a revoked auditor changes nothing.
 *
 * @throws {DomainError} `auditor_not_found`
 */
export function decideRevokeAuditor(reason: string | null): AuditorDecision {
  return (state) => {
    const { id: auditorId, revoked } = requireExisting(state, "auditor");
    return revoked ? [] : [{ type: "AuditorRevoked", data: { auditorId, reason } }];
  };
}

/**
 * Erases the data of a revoked auditor. As long as the auditor has access, the clinics must be able to see the name of
 * the person who reads their data.
 *
 * @throws {DomainError} `auditor_not_found`, `auditor_not_revoked`
 */
export function decideEraseAuditor(requestedErasure: Erasure): AuditorDecision {
  return (state) => {
    const auditor = requireExisting(state, "auditor");
    if (!auditor.revoked)
      throw new DomainError("auditor_not_revoked", "the auditor is not revoked; revoke the auditor first");
    const erasure = decideErasure(auditor, requestedErasure);
    return erasure ? [{ type: "AuditorDataErased", data: { auditorId: auditor.id, ...erasure } }] : [];
  };
}
