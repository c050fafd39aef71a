import { EventSchemaError } from "../../../shared/domain/events/stored-event.ts";
import { ENCRYPTED_MEMBER, encryptedPersonalData } from "../../../shared/domain/personal-data/encrypted.ts";
import { addNeutralValues } from "../../../shared/domain/personal-data/personal-fields.ts";
import type { RecordedEvent } from "../../../shared/eventstore/log.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import { decryptEvent, decryptFields, findKeysOf } from "../../../shared/personal-data/decrypt-events.ts";
import type { AuditEvent } from "./audit-event.ts";

/**
 * Returns an event with its personal data instead of the encrypted form. If the data was erased, the event has neutral
 * values and the mark `erased`. If the data cannot be decrypted, the event stays encrypted and names the problem.
 *
 * @throws {KeyStoreUnavailableError}
 * @throws {DataKeyError}
 */
export async function revealAuditEvent(event: AuditEvent, dataKeys: DataKeys): Promise<AuditEvent> {
  const { type, stream, id } = event;
  const { [ENCRYPTED_MEMBER]: member, ...otherData } = (event.data ?? {}) as Record<string, unknown>;
  const encrypted = encryptedPersonalData.safeParse(member).data;
  if (!encrypted) return event;
  try {
    const fields = decryptFields({ type, stream, id, encrypted }, await dataKeys.find([encrypted.keyId]));
    if (fields) return { ...event, data: { ...otherData, ...fields } };
    return { ...event, data: addNeutralValues(type, otherData), erased: true };
  } catch (error) {
    if (!(error instanceof EventSchemaError)) throw error;
    return { ...event, problem: error.message };
  }
}

/**
 * Returns a parsed event with its personal data, or with neutral values if the data was erased.
 *
 * @throws {EventSchemaError} if the data cannot be decrypted
 * @throws {KeyStoreUnavailableError}
 * @throws {DataKeyError}
 */
export async function revealRecordedEvent(event: RecordedEvent, dataKeys: DataKeys): Promise<RecordedEvent> {
  return event.encrypted ? decryptEvent(event, await findKeysOf([event], dataKeys)) : event;
}
