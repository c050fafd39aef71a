import type { AuditorEvent } from "../../../shared/events/audit.ts";
import type { Instant } from "../../../shared/time/rfc3339.ts";
import { DomainError } from "../../handle.ts";
import type { Auditor } from "./auditor.ts";

type Decision = (state: Auditor | undefined) => AuditorEvent[];

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
): Decision {
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
export function decideRevokeAuditor(reason: string | null): Decision {
  return (state) => {
    if (!state) throw new DomainError("auditor_not_found", "there is no such auditor");
    return state.revoked ? [] : [{ type: "AuditorRevoked", data: { auditorId: state.id, reason } }];
  };
}
