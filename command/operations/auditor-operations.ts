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

/** `aud_`, the auditor's id without hyphens, `_`, and the secret: 256 random bits. */
const CREDENTIAL = /^aud_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_([\w-]{43})$/;

/** @returns a new credential as it is shown once, and the hash that is kept */
export function newCredential(auditorId: string): { credential: string; secretHash: string } {
  const secret = randomBytes(32).toString("base64url");
  return {
    credential: `aud_${auditorId.replaceAll("-", "")}_${secret}`,
    secretHash: hashSecret(secret),
  };
}

/** @returns whose credential a text says it is, and the secret's hash; undefined for what is none */
export function readCredential(text: string): { auditorId: string; secretHash: string } | undefined {
  const match = CREDENTIAL.exec(text);
  const secret = match?.[6];
  if (!match || secret === undefined) return undefined;
  return { auditorId: match.slice(1, 6).join("-"), secretHash: hashSecret(secret) };
}

/** Plain SHA-256 (hex) does: nobody guesses 256 random bits. */
function hashSecret(secret: string): string {
  return createHash("sha256").update(secret, "utf8").digest("hex");
}
