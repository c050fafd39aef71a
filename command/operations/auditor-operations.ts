import {
  type Auditor,
  auditorAggregate,
  decideRegisterAuditor,
  decideRevokeAuditor,
} from "../../shared/domain/audit/auditor.ts";
import { clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import type { Instant } from "../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, type Handled, handle, load } from "../handling/handle.ts";
import { newCredential } from "./auditor-credential.ts";

/**
 * Registers an auditor. The credential is in this answer and nowhere else.
 *
 * @param input.clinicIds the clinics that the auditor may look at; null for all of them
 * @throws {DomainError} `auditor_exists`, `clinic_not_found`, `expiry_passed`
 */
export async function registerAuditor(
  log: EventLog,
  input: { auditorId: string; name: string; clinicIds: string[] | null; expiresAt: Instant | null },
  context: CommandContext,
): Promise<Handled<Auditor> & { credential: string }> {
  for (const clinicId of input.clinicIds ?? []) {
    const { state } = await load(log, clinicAggregate, clinicId);
    if (!state) throw new DomainError("clinic_not_found", `there is no clinic ${clinicId}`);
  }
  const { credential, secretHash } = newCredential(input.auditorId);
  const decide = decideRegisterAuditor(input, secretHash, context.now);
  return { ...(await handle(log, auditorAggregate, input.auditorId, decide, context)), credential };
}

/** Ends an auditor's access, from the next request on, for good. */
export function revokeAuditor(
  log: EventLog,
  input: { auditorId: string; reason: string | null },
  context: CommandContext,
): Promise<Handled<Auditor>> {
  return handle(log, auditorAggregate, input.auditorId, decideRevokeAuditor(input.reason), context);
}
