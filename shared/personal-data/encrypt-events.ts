import type { CatalogEvent } from "../domain/events/catalog.ts";
import { ENCRYPTED_MEMBER, type EncryptedPersonalData } from "../domain/personal-data/encrypted.ts";
import type { Person } from "../domain/personal-data/person.ts";
import {
  findPersonalFields,
  type PersonalData,
  separatePersonalData,
} from "../domain/personal-data/personal-fields.ts";
import * as aesGcm from "./aes-gcm.ts";
import type { DataKeyOwner, DataKeys } from "./data-keys.ts";

interface EventOfPerson {
  id: string;
  event: CatalogEvent;
  person?: Person | undefined;
}

/** Event data in which encrypted personal data replaces the personal fields. */
export type EncryptedEventData = Record<string, unknown>;

/**
 * Encrypts the personal data of events for one stream. All data keys are fetched with one call.
 *
 * @returns the data to store for each event; undefined for an event without personal data
 * @throws {KeyStoreUnavailableError}
 * @throws {DataKeyError}
 * @throws an error if an event has personal data but no person
 */
export async function encryptEvents(
  stream: string,
  events: readonly EventOfPerson[],
  dataKeys: DataKeys | undefined,
): Promise<(EncryptedEventData | undefined)[]> {
  const separatedEvents = events.map(({ event }) => separatePersonalData(event));
  if (separatedEvents.every((separatedEvent) => separatedEvent === undefined)) return separatedEvents as undefined[];
  if (!dataKeys) throw new Error(`personal data for ${stream} cannot be encrypted, because the log has no data keys`);
  const owners = events.flatMap((event, index) => (separatedEvents[index] ? [getOwner(stream, event)] : []));
  const keys = (await dataKeys.getOrCreate(owners)).values();
  return events.map(({ id }, index) => {
    const separatedEvent = separatedEvents[index];
    const dataKey = separatedEvent && keys.next().value;
    if (!dataKey) return undefined;
    const ciphertext = encryptPersonalData(dataKey.key, separatedEvent.personalData, stream, id);
    return {
      ...separatedEvent.otherData,
      [ENCRYPTED_MEMBER]: { keyId: dataKey.id, ciphertext } satisfies EncryptedPersonalData,
    };
  });
}

/**
 * Encrypts personal data for one event. The ciphertext is bound to the stream and the event, so it cannot be moved to
 * another event.
 *
 * @returns base64
 */
function encryptPersonalData(key: Buffer, personalData: PersonalData, stream: string, eventId: string): string {
  return aesGcm.encrypt(key, JSON.stringify(personalData), describeEvent(stream, eventId)).toString("base64");
}

/** Returns the additional authenticated data that binds a ciphertext to its event. */
export function describeEvent(stream: string, eventId: string): string {
  return `${stream}\n${eventId}`;
}

function getOwner(stream: string, { event, person }: EventOfPerson): DataKeyOwner {
  const category = findPersonalFields(event.type)?.category;
  if (!person || !category) throw new Error(`${event.type} for ${stream} has personal data, but names no person`);
  return { person, category };
}
