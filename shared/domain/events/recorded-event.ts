import type { EncryptedPersonalData } from "../personal-data/encrypted.ts";
import type { CatalogEvent } from "./catalog.ts";
import type { EventMetadata } from "./metadata.ts";

export type RecordedEvent<Event extends CatalogEvent = CatalogEvent> = Event & {
  id: string;
  stream: string;
  /** Revision in the stream, from 0. */
  revision: bigint;
  /** Log position (commit position). */
  position: bigint;
  metadata: EventMetadata;
  /** Encrypted personal fields, if they were not decrypted. In `data`, these fields then have neutral values. */
  encrypted?: EncryptedPersonalData;
  /** Id of the data key that decrypted the personal fields. Absent if nothing was decrypted. */
  dataKeyId?: string;
  /** True if the personal fields cannot be decrypted, because their data key was destroyed. */
  isErased?: boolean;
  /** True if the personal fields cannot be decrypted, because their data key is missing in the key store. */
  isKeyMissing?: boolean;
};
