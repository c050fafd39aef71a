import type { RecordedEvent } from "../domain/events/recorded-event.ts";
import { createSchemaError, EventSchemaError } from "../domain/events/stored-event.ts";
import { upcast } from "../domain/events/upcasters.ts";
import type { EncryptedPersonalData } from "../domain/personal-data/encrypted.ts";
import { findPersonalFields, type PersonalData } from "../domain/personal-data/personal-fields.ts";
import { decrypt } from "./aes-gcm.ts";
import { DataKeyError, type DataKeys, type StoredDataKey } from "./data-keys.ts";
import { describeEvent } from "./encrypt-events.ts";

type Keys = ReadonlyMap<string, StoredDataKey>;

/**
 * Finds the data keys of events with one call.
 *
 * @throws {KeyStoreUnavailableError}
 */
export async function findKeysOf(events: readonly RecordedEvent[], dataKeys: DataKeys): Promise<Keys> {
  const ids = new Set<string>();
  for (const { encrypted } of events) if (encrypted) ids.add(encrypted.keyId);
  return ids.size === 0 ? new Map() : dataKeys.find([...ids]);
}

/**
 * Decrypts the personal data of an event. If the data key was destroyed or is missing, the personal fields keep their
 * neutral values, and the event has the mark `isErased` or `isKeyMissing`.
 *
 * @throws an error for which {@link isDecryptionError} returns true
 */
export function decryptEvent(event: RecordedEvent, keys: Keys): RecordedEvent {
  const { encrypted, type, stream, id, revision, position, metadata } = event;
  if (!encrypted) return event;
  const personalData = decryptFields({ type, stream, id, encrypted }, keys);
  if (personalData === "erased") return { ...event, isErased: true };
  if (personalData === "missing") return { ...event, isKeyMissing: true };
  const data = revealPersonalData(event, personalData);
  // Copying the event without `encrypted` would take a fifth of the time of decryption.
  return { type, data, metadata, id, stream, revision, position, dataKeyId: encrypted.keyId } as RecordedEvent;
}

/**
 * Returns the data of an event with the decrypted values of its personal fields, instead of the neutral values. The
 * values may belong to an earlier schema version.
 *
 * @throws {EventSchemaError} if a value is invalid
 */
function revealPersonalData(
  { type, data, metadata }: { type: string; data: object; metadata: { schemaVersion: number } },
  personalData: PersonalData,
): object {
  const values = upcast(type, metadata.schemaVersion, personalData);
  const parseResult = findPersonalFields(type)?.schema.safeParse(values);
  if (!parseResult) return data;
  if (!parseResult.success) throw createSchemaError(type, "data", parseResult.error);
  return Object.assign({}, data, parseResult.data);
}

/**
 * Decrypts the personal fields of a stored event, without validating them.
 *
 * @returns `erased` if the data key was destroyed; `missing` if the store does not contain it
 * @throws {EventSchemaError} if the ciphertext or its context was changed
 * @throws {DataKeyError} if the data key cannot be used
 */
export function decryptFields(
  { type, stream, id, encrypted }: { type: string; stream: string; id: string; encrypted: EncryptedPersonalData },
  keys: Keys,
): PersonalData | "erased" | "missing" {
  const key = keys.get(encrypted.keyId);
  if (!key) return "missing";
  if (key === "destroyed") return "erased";
  if (key instanceof DataKeyError) throw key;
  try {
    const ciphertext = Buffer.from(encrypted.ciphertext, "base64");
    return JSON.parse(decrypt(key, ciphertext, describeEvent(stream, id)).toString("utf8")) as PersonalData;
  } catch (error) {
    const problem = `${type} has personal data that cannot be decrypted; the stored event or the data key ${encrypted.keyId} was changed`;
    throw new EventSchemaError(problem, { cause: error });
  }
}

/** Returns true if an error concerns only the personal data of one event. Other events may be readable. */
export function isDecryptionError(error: unknown): error is EventSchemaError | DataKeyError {
  return error instanceof EventSchemaError || error instanceof DataKeyError;
}
