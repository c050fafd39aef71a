import { createHash } from "node:crypto";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * Returns the key of an id in the audit index. Each key is a UUID: a UUID is its own key, and any other text gets the
 * first 16 bytes of its SHA-256. The rule must never change, because all releases share the index.
 */
export function toKey(id: string): string {
  const lowerCaseId = id.toLowerCase();
  return UUID.test(lowerCaseId) ? lowerCaseId : toHashKey(id);
}

/**
 * Namespaces of hashed keys. Hashing keeps these keys apart from plain ids, which other programs can choose in event
 * data.
 */
type KeyPurpose = "clinic" | "correlation" | "stream" | "accessed" | "accessed clinic";

/** Returns the key of an id in the namespace of a purpose. */
export function toPurposeKey(purpose: KeyPurpose, id: string): string {
  return toHashKey(`${purpose} ${toKey(id)}`);
}

/** Key of accesses by correlation id or application, which can return records of several clinics. */
export const SHARED_ACCESS_KEY = toHashKey("accessed several clinics");

function toHashKey(text: string): string {
  const hex = createHash("sha256").update(text).digest("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join("-");
}

/** Returns true if a text is a UUID in lower case. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}
