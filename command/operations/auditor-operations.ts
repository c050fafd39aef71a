import { createHash, randomBytes } from "node:crypto";
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

/**
 * Registers an auditor. The credential is only in the result.
 *
 * @param input.clinicIds clinics whose records the auditor may see; null for all records
 * @throws {DomainError} `auditor_exists`, `clinic_not_found`, `expiry_passed`
 */
export async function registerAuditor(
  log: EventLog,
  input: { auditorId: string; name: string; clinicIds: string[] | null; expiresAt: Instant | null },
  context: CommandContext,
): Promise<Handled<Auditor> & { credential: string }> {
  for (const clinicId of input.clinicIds ?? []) {
    const { state } = await load(log, clinicAggregate, clinicId);
    if (!state) throw new DomainError("clinic_not_found", `clinic ${clinicId} does not exist`);
  }
  const { credential, secretHash } = newCredential(input.auditorId);
  const decide = decideRegisterAuditor(input, secretHash, context.now);
  return { ...(await handle(log, auditorAggregate, input.auditorId, decide, context)), credential };
}

/** Revokes an auditor's access permanently, effective from the next request. */
export function revokeAuditor(
  log: EventLog,
  input: { auditorId: string; reason: string | null },
  context: CommandContext,
): Promise<Handled<Auditor>> {
  return handle(log, auditorAggregate, input.auditorId, decideRevokeAuditor(input.reason), context);
}

/** `aud_`, the auditor's id without hyphens, `_`, and the secret: 256 random bits. */
const CREDENTIAL = /^aud_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_([\w-]{43})$/;

/** @returns a new credential, which is shown only once, and the hash to store */
export function newCredential(auditorId: string): { credential: string; secretHash: string } {
  const secret = randomBytes(32).toString("base64url");
  return {
    credential: `aud_${auditorId.replaceAll("-", "")}_${secret}`,
    secretHash: hashSecret(secret),
  };
}

/** @returns the auditor's id and the hash of the secret; undefined for text that is not a credential */
export function readCredential(text: string): { auditorId: string; secretHash: string } | undefined {
  const match = CREDENTIAL.exec(text);
  const secret = match?.[6];
  if (!match || secret === undefined) return undefined;
  return { auditorId: match.slice(1, 6).join("-"), secretHash: hashSecret(secret) };
}

/** Plain SHA-256 (hex) is sufficient for 256 random bits. */
function hashSecret(secret: string): string {
  return createHash("sha256").update(secret, "utf8").digest("hex");
}
