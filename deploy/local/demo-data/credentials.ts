import { randomUUID } from "node:crypto";
import fs from "node:fs";
import { z } from "zod";
import { type CommandContext, load } from "../../../command/handling/handle.ts";
import {
  hashClientSecret,
  issueCredential,
  revokeCredential,
} from "../../../command/operations/application-operations.ts";
import { readCredential, registerAuditor } from "../../../command/operations/auditor-operations.ts";
import { auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import { applicationAggregate } from "../../../shared/domain/partner/application.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";

/** Client secrets by application id, and the auditor's credential under `auditor`. */
const schema = z.record(z.string(), z.string());

/**
 * Returns a valid client secret for each application. A secret that is not in the file is issued and saved there, readable
 * only by its owner. The log stores only hashes, so a lost secret is replaced and its credential revoked.
 */
export async function ensureClientSecrets(
  log: EventLog,
  applicationIds: string[],
  file: string,
  now: number,
): Promise<Record<string, string>> {
  const kept = readCredentials(file);
  const secrets: Record<string, string> = {};
  for (const applicationId of applicationIds) {
    const known = kept[applicationId];
    const credentials = (await load(log, applicationAggregate, applicationId)).state?.credentials ?? [];
    if (known !== undefined && credentials.some(({ secretHash }) => secretHash === hashClientSecret(known))) {
      secrets[applicationId] = known;
      continue;
    }
    const context = createDemoContext(now);
    for (const { id: credentialId } of credentials)
      await revokeCredential(log, { applicationId, credentialId }, context);
    secrets[applicationId] = (await issueCredential(log, { applicationId }, context)).clientSecret;
    writeCredentials(file, { ...kept, ...secrets });
  }
  return secrets;
}

/** Returns the command context of the demo data. */
export function createDemoContext(now: number): CommandContext {
  const correlationId = randomUUID();
  const actor = { type: "operator" as const, id: "demo-data" };
  return { actor, clinicId: null, environment: null, correlationId, causationId: correlationId, now };
}

/** Reads the file. If it is missing or damaged, returns no secrets, and they are replaced. */
export function readCredentials(file: string): Record<string, string> {
  if (!fs.existsSync(file)) return {};
  try {
    return schema.parse(JSON.parse(fs.readFileSync(file, "utf8")));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return {};
    throw error;
  }
}

/** Replaces the file atomically. Only its owner can read it. */
export function writeCredentials(file: string, secrets: Record<string, string>): void {
  fs.writeFileSync(`${file}.new`, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 });
  fs.renameSync(`${file}.new`, file);
}

const AUDITOR_KEY = "auditor";

/**
 * Returns the credential of an auditor with access to all clinics. If the file has no valid credential, registers a new
 * auditor.
 */
export async function ensureAuditorCredential(log: EventLog, file: string, now: number): Promise<string> {
  const kept = readCredentials(file);
  const known = kept[AUDITOR_KEY];
  const read = known === undefined ? undefined : readCredential(known);
  const auditor = read && (await load(log, auditorAggregate, read.auditorId)).state;
  if (known !== undefined && auditor?.secretHash === read?.secretHash && auditor?.revoked === false)
    return known;
  const input = { auditorId: randomUUID(), name: "Demo auditor", clinicIds: null, expiresAt: null };
  const { credential } = await registerAuditor(log, input, createDemoContext(now));
  writeCredentials(file, { ...kept, [AUDITOR_KEY]: credential });
  return credential;
}
