import { LRUCache } from "lru-cache";
import { isCatalogStream } from "../../../shared/domain/events/catalog.ts";
import { EventSchemaError, parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { getCurrentVersion } from "../../../shared/domain/events/upcasters.ts";
import { ENCRYPTED_MEMBER, type EncryptedPersonalData } from "../../../shared/domain/personal-data/encrypted.ts";
import type { Person } from "../../../shared/domain/personal-data/person.ts";
import { findPersonOfStream } from "../../../shared/domain/personal-data/person-of-stream.ts";
import { findPersonalFields, separatePersonalData } from "../../../shared/domain/personal-data/personal-fields.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import { encryptReproducibly } from "../../../shared/personal-data/encrypt-events.ts";
import type { StoredEvent } from "./stored-event.ts";

/** Converts an event of the source to the form in which the target holds it. */
export type TransformEvent = (event: StoredEvent) => Promise<StoredEvent>;

/** Maximum number of streams whose person is remembered. */
const MAX_STREAMS = 20_000;

/**
 * Creates a function that encrypts the personal data of an event that the source holds in plain text. The same event
 * always gets the same bytes, so that an interrupted copy can be continued and compared. All other events stay
 * unchanged, including events that this release cannot read.
 *
 * @param sourceLog log from which the first event of a stream is read, to find the person
 * @param onUnknownPerson called for an event that stays in plain text, because its person is unknown
 */
export function createEventEncryption(
  sourceLog: EventLog,
  dataKeys: DataKeys,
  onUnknownPerson: (event: StoredEvent) => void,
): TransformEvent {
  const personsByStream = new LRUCache<string, Person>({ max: MAX_STREAMS });

  async function findPerson(stream: string): Promise<Person | undefined> {
    const knownPerson = personsByStream.get(stream);
    if (knownPerson) return knownPerson;
    const [firstEvent] = await sourceLog.read(stream, 0n);
    const person = firstEvent && findPersonOfStream(firstEvent);
    if (person) personsByStream.set(stream, person);
    return person;
  }

  return async (event) => {
    const { stream, id, type } = event;
    const category = findPersonalFields(type)?.category;
    const plainEvent = category && isCatalogStream(stream) ? parsePlainEvent(event) : undefined;
    if (!category || !plainEvent) return event;
    const person = await findPerson(stream);
    if (!person) {
      onUnknownPerson(event);
      return event;
    }
    const [dataKey] = await dataKeys.getOrCreate([{ person, category }]);
    if (!dataKey) throw new Error("the store of data keys returned no key");
    const ciphertext = encryptReproducibly(dataKey.key, plainEvent.personalData, stream, id);
    const encrypted: EncryptedPersonalData = { keyId: dataKey.id, ciphertext };
    const metadata = { ...plainEvent.metadata, schemaVersion: getCurrentVersion(type) };
    return {
      ...event,
      data: Buffer.from(JSON.stringify({ ...plainEvent.otherData, [ENCRYPTED_MEMBER]: encrypted })),
      metadata: Buffer.from(JSON.stringify(metadata)),
    };
  };
}

/** Returns the parts of an event with personal data in plain text; undefined for any other event. */
function parsePlainEvent({ type, data, metadata }: StoredEvent) {
  try {
    const storedMetadata = JSON.parse(Buffer.from(metadata).toString("utf8")) as object;
    const storedData: unknown = JSON.parse(Buffer.from(data).toString("utf8"));
    const event = parseStoredEvent({ type, data: storedData, metadata: storedMetadata });
    const separatedEvent = event.encrypted ? undefined : separatePersonalData(event);
    return separatedEvent && { ...separatedEvent, metadata: storedMetadata };
  } catch (error) {
    if (error instanceof EventSchemaError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
