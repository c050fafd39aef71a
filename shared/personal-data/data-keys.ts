import type { Person, PersonalDataCategory } from "../domain/personal-data/person.ts";

/** Owner of a data key: one person, and one category of the person's data. */
export interface DataKeyOwner {
  person: Person;
  category: PersonalDataCategory;
}

/** AES-256 key that encrypts one category of one person's data. */
export interface DataKey {
  id: string;
  key: Buffer;
}

/** Description of a data key, without the key itself. */
export interface DataKeyRecord {
  id: string;
  category: PersonalDataCategory;
  /** RFC 3339. */
  createdAt: string;
  /** RFC 3339; null if the key is not destroyed. */
  destroyedAt: string | null;
}

/** Store of data keys. Destroying a key makes the data that it encrypts unreadable everywhere. */
export interface DataKeys {
  /**
   * Returns keys for encryption, in the order of the owners. Creates the missing keys.
   *
   * @throws {KeyStoreUnavailableError}
   * @throws {DataKeyError} if a key is wrapped by an unknown master key
   */
  getOrCreate(owners: readonly DataKeyOwner[]): Promise<DataKey[]>;
  /**
   * Returns keys for decryption by id. Destroyed and unknown keys are absent.
   *
   * @throws {KeyStoreUnavailableError}
   * @throws {DataKeyError} if a key is wrapped by an unknown master key
   */
  find(ids: readonly string[]): Promise<ReadonlyMap<string, Buffer>>;
  /**
   * Destroys the keys of a person irrevocably. Destroying destroyed keys changes nothing.
   *
   * @param categories categories of the keys; all categories if undefined
   * @returns number of keys that existed and are now destroyed
   * @throws {KeyStoreUnavailableError}
   */
  destroy(person: Person, categories?: readonly PersonalDataCategory[]): Promise<number>;
  /**
   * Lists the existing and destroyed keys of a person, oldest first.
   *
   * @throws {KeyStoreUnavailableError}
   */
  listOf(person: Person): Promise<DataKeyRecord[]>;
}

/** Thrown if the store of data keys does not respond. The call may be repeated. */
export class KeyStoreUnavailableError extends Error {
  override readonly name = "KeyStoreUnavailableError";
}

/** Thrown if a data key cannot be used: its master key is not configured, or stored bytes have been changed. */
export class DataKeyError extends Error {
  override readonly name = "DataKeyError";
}
