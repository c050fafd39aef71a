import { auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { KeyStoreUnavailableError } from "../../../shared/personal-data/data-keys.ts";
import { loadAggregate } from "../../handling/handle.ts";

/**
 * Returns an auditor's name; null if the auditor does not exist or the data keys are unavailable.
 *
 * @param personalLog decrypts personal data
 * @throws {LogUnavailableError}
 */
export async function readAuditorName(personalLog: EventLog, auditorId: string): Promise<string | null> {
  try {
    return (await loadAggregate(personalLog, auditorAggregate, auditorId)).state?.name ?? null;
  } catch (error) {
    if (error instanceof KeyStoreUnavailableError) return null;
    throw error;
  }
}
