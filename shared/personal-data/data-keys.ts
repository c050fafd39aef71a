import type { Person, PersonalDataCategory } from "../domain/personal-data/person.ts";

/** Owner of a data key: one person, and one category of the person's data. */
export interface DataKeyOwner {
  person: Person;
  category: PersonalDataCategory;
}

export function describeOwner({ person, category }: DataKeyOwner): string {
  return `${person.type}\n${person.id}\n${category}`;
}

export interface DataKey {
  id: string;
  key: Buffer;
}

/**
 * A data key as the store holds it: the key, `destroyed`, or the reason why a stored key cannot be used, for example
 * because its master key is not configured.
 */
export type StoredDataKey = Buffer | "destroyed" | DataKeyError;

/** Store of data keys. Destroying a key makes the data that it encrypts unreadable everywhere. */
export interface DataKeys {
  /**
   * Returns keys for encryption, in the order of the owners. Creates the missing keys.
   *
   * @throws {KeyStoreUnavailableError}
   * @throws {DataKeyError} if one of these keys cannot be used
   */
  getOrCreate(owners: readonly DataKeyOwner[]): Promise<DataKey[]>;
  /**
   * Returns keys for decryption by id. If the store has no row for an id, the id is absent from the result. Such a key
   * was lost, because a destroyed key leaves a row.
   *
   * @throws {KeyStoreUnavailableError}
   */
  find(ids: readonly string[]): Promise<ReadonlyMap<string, StoredDataKey>>;
}

/** Thrown if the store of data keys does not respond. The call may be repeated. */
export class KeyStoreUnavailableError extends Error {
  override readonly name = "KeyStoreUnavailableError";
}

/**
 * Thrown if a data key cannot be used: its master key is not configured, stored bytes have been changed, or the key is
 * missing.
 */
export class DataKeyError extends Error {
  override readonly name = "DataKeyError";
}
