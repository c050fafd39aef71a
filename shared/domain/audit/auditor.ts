import { type Aggregate, createRecorder, type Decision, defineAggregate } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { type AuditorEvent, auditorStreams } from "../events/audit.ts";
import type { DataOf } from "../events/category.ts";
import { ERASED_TEXT } from "../personal-data/declaration.ts";
import { addErasure, type ErasedData, isErased, isErasureNeeded, NOTHING_ERASED } from "../personal-data/erasure.ts";
import { refuseExisting, requireExisting, requireFutureExpiry } from "../preconditions.ts";

type AuditorRegistration = DataOf<AuditorEvent, "AuditorRegistered">;

/** State of an auditor. The name is `(erased)` after an erasure of the contact data. */
export interface Auditor extends Omit<AuditorRegistration, "auditorId">, ErasedData {
  id: string;
  revoked: boolean;
}

export const auditorAggregate: Aggregate<typeof auditorStreams, Auditor> = defineAggregate(
  auditorStreams,
  {
    AuditorRegistered: ({ auditorId: id, ...registration }) => ({
      ...{ id, ...registration, revoked: false },
      ...NOTHING_ERASED,
    }),
  },
  {
    AuditorRevoked: () => ({ revoked: true }),
    AuditorDataErased(erasure, { name, ...auditor }) {
      const erasedData = addErasure(auditor, erasure);
      return { ...erasedData, name: isErased(erasedData) ? ERASED_TEXT : name };
    },
  },
  { personOf: ({ id }) => ({ type: "auditor", id }) },
);

/**
 * Registers an auditor with one credential. The credential, its clinics and its expiry are fixed. If you need other
 * values, register another auditor.
 *
 * @param now milliseconds since 1970
 * @throws {DomainError} `auditor_exists`, `expiry_passed`
 */
export function registerAuditor(data: AuditorRegistration, now: number): Decision<Auditor, AuditorEvent> {
  return (state) => {
    refuseExisting(state, "auditor");
    requireFutureExpiry(data, now);
    const clinicIds = data.clinicIds && [...new Set(data.clinicIds)];
    return [{ type: "AuditorRegistered", data: { ...data, clinicIds } }];
  };
}

const recordIf = createRecorder(auditorAggregate, (state) => requireExisting(state, "auditor"));

/**
 * Revokes an auditor permanently. Revoking a revoked auditor changes nothing.
 *
 * @throws {DomainError} `auditor_not_found`
 */
export const revokeAuditor = recordIf("AuditorRevoked", ({ revoked }) => !revoked);

/**
 * Erases the data of a revoked auditor. Before the revocation, clinics must be able to see who reads their data.
 *
 * @throws {DomainError} `auditor_not_found`, `auditor_not_revoked`
 */
export const eraseAuditor = recordIf("AuditorDataErased", (auditor, erasure) => {
  if (auditor.revoked) return isErasureNeeded(auditor, erasure);
  throw new DomainError("auditor_not_revoked", "the auditor is not revoked; revoke the auditor first");
});
