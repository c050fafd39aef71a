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
  /** Encrypted personal fields. Present if they were not decrypted; the fields then have neutral values. */
  encrypted?: EncryptedPersonalData;
  /** Data key of the decrypted personal fields. Absent if they were in plain text, or are not decrypted. */
  dataKeyId?: string;
  /** True if the personal fields cannot be decrypted, because their data key was destroyed. */
  isErased?: boolean;
  /** True if the personal fields cannot be decrypted, because the store does not contain their data key. */
  isKeyMissing?: boolean;
};
