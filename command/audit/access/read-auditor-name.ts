import { auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { KeyStoreUnavailableError } from "../../../shared/personal-data/data-keys.ts";
import { isDecryptionError } from "../../../shared/personal-data/decrypt-events.ts";
import { loadAggregate } from "../../handling/handle.ts";

/**
 * Returns an auditor's name. Returns null if the auditor does not exist, or the name cannot be decrypted.
 *
 * @param personalLog decrypts personal data
 * @throws {LogUnavailableError}
 */
export async function readAuditorName(personalLog: EventLog, auditorId: string): Promise<string | null> {
  try {
    const { state, isKeyMissing } = await loadAggregate(personalLog, auditorAggregate, auditorId);
    return isKeyMissing ? null : (state?.name ?? null);
  } catch (error) {
    if (error instanceof KeyStoreUnavailableError || isDecryptionError(error)) return null;
    throw error;
  }
}
