import { randomUUID } from "node:crypto";
import { load } from "../../../command/handling/handle.ts";
import { readCredential, registerAuditor } from "../../../command/operations/auditor-operations.ts";
import { auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { demoContext, readCredentials, writeCredentials } from "./credentials.ts";

const KEY = "auditor";

/**
 * The credential of an auditor who may see everything: from the file, or, where the file has none that counts, of an
 * auditor who is registered now.
 */
export async function auditorCredential(log: EventLog, file: string, now: number): Promise<string> {
  const kept = readCredentials(file);
  const known = kept[KEY];
  const read = known === undefined ? undefined : readCredential(known);
  const auditor = read && (await load(log, auditorAggregate, read.auditorId)).state;
  if (known !== undefined && auditor?.secretHash === read?.secretHash && auditor?.revoked === false)
    return known;
  const input = { auditorId: randomUUID(), name: "Demo auditor", clinicIds: null, expiresAt: null };
  const { credential } = await registerAuditor(log, input, demoContext(now));
  writeCredentials(file, { ...kept, [KEY]: credential });
  return credential;
}
