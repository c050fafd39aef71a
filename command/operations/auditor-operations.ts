import { hash, randomBytes } from "node:crypto";
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
import { type CommandContext, type CommandResult, handle, loadAggregate } from "../handling/handle.ts";
import type { Operation } from "./operation.ts";

/**
 * Registers an auditor. Only the result contains the credential.
 *
 * @param input.clinicIds clinics whose records the auditor may see; null for all records
 * @throws {DomainError} `auditor_exists`, `clinic_not_found`, `expiry_passed`
 */
export async function registerAuditor(
  log: EventLog,
  input: { auditorId: string; name: string; clinicIds: string[] | null; expiresAt: Instant | null },
  context: CommandContext,
): Promise<CommandResult<Auditor> & { credential: string }> {
  for (const clinicId of input.clinicIds ?? []) {
    const { state } = await loadAggregate(log, clinicAggregate, clinicId);
    if (!state) throw new DomainError("clinic_not_found", `clinic ${clinicId} does not exist`);
  }
  const { credential, secretHash } = generateCredential(input.auditorId);
  const decide = decideRegisterAuditor(input, secretHash, context.now);
  return { ...(await handle(log, auditorAggregate, input.auditorId, decide, context)), credential };
}

/** Permanently revokes an auditor's access, effective from the next request. */
export const revokeAuditor: Operation<{ auditorId: string; reason: string | null }, Auditor> = (log, input, context) =>
  handle(log, auditorAggregate, input.auditorId, decideRevokeAuditor(input.reason), context);

/** Format of a credential: `aud_`, the auditor's id without hyphens, `_`, and a secret of 256 random bits. */
const CREDENTIAL_PATTERN = /^aud_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_([\w-]{43})$/;

/** Generates a credential, which is shown only once, and the hash that is stored instead. */
function generateCredential(auditorId: string): { credential: string; secretHash: string } {
  const secret = randomBytes(32).toString("base64url");
  return {
    credential: `aud_${auditorId.replaceAll("-", "")}_${secret}`,
    secretHash: hashSecret(secret),
  };
}

export interface Credential {
  auditorId: string;
  secretHash: string;
}

export function readCredential(text: string): Credential | undefined {
  const match = CREDENTIAL_PATTERN.exec(text);
  const secret = match?.[6];
  if (!match || secret === undefined) return undefined;
  return { auditorId: match.slice(1, 6).join("-"), secretHash: hashSecret(secret) };
}

/** Hashes a secret for storage, with SHA-256 (hex). 256 random bits need no salt and no slow hash. */
function hashSecret(secret: string): string {
  return hash("sha256", secret);
}
