import { ENCRYPTED_MEMBER, encryptedPersonalData } from "../../../shared/domain/personal-data/encrypted.ts";
import { addNeutralValues } from "../../../shared/domain/personal-data/personal-fields.ts";
import type { RecordedEvent } from "../../../shared/eventstore/log.ts";
import { DataKeyError, type DataKeys } from "../../../shared/personal-data/data-keys.ts";
import {
  decryptEvent,
  decryptFields,
  findKeysOf,
  isDecryptionError,
} from "../../../shared/personal-data/decrypt-events.ts";
import type { AuditEvent } from "./audit-event.ts";

/**
 * Returns an event with its personal data instead of the encrypted form. If the data was erased, the event has neutral
 * values and the mark `erased`. If the data cannot be decrypted, for example because the data key is missing, the event
 * stays encrypted and names the problem.
 *
 * @throws {KeyStoreUnavailableError}
 */
export async function revealAuditEvent(event: AuditEvent, dataKeys: DataKeys): Promise<AuditEvent> {
  const { type, stream, id } = event;
  const { [ENCRYPTED_MEMBER]: member, ...otherData } = (event.data ?? {}) as Record<string, unknown>;
  const encrypted = encryptedPersonalData.safeParse(member).data;
  if (!encrypted) return event;
  try {
    const fields = decryptFields({ type, stream, id, encrypted }, await dataKeys.find([encrypted.keyId]));
    if (fields === "missing") throw createMissingKeyError(encrypted.keyId);
    if (fields === "erased") return { ...event, data: addNeutralValues(type, otherData), erased: true };
    return { ...event, data: { ...otherData, ...fields } };
  } catch (error) {
    if (!isDecryptionError(error)) throw error;
    return { ...event, problem: error.message };
  }
}

/**
 * Returns a parsed event with its personal data, or with neutral values if the data was erased.
 *
 * @throws an error for which `isDecryptionError` returns true, if the data cannot be decrypted
 * @throws {KeyStoreUnavailableError}
 */
export async function revealRecordedEvent(event: RecordedEvent, dataKeys: DataKeys): Promise<RecordedEvent> {
  const { encrypted } = event;
  if (!encrypted) return event;
  const decryptedEvent = decryptEvent(event, await findKeysOf([event], dataKeys));
  if (decryptedEvent.isKeyMissing) throw createMissingKeyError(encrypted.keyId);
  return decryptedEvent;
}

function createMissingKeyError(keyId: string): DataKeyError {
  return new DataKeyError(`data key ${keyId} is missing; restore the data keys from a backup`);
}
