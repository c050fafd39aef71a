import { createHash } from "node:crypto";

/** Matches UUIDs in lower case, but not the keys of {@link toPurposeKey}. */
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-(?!0[0-9a-f]{3}-f)[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * Returns the key of an id in the audit index. Each key is a UUID: a UUID is its own key, and any other text gets a
 * UUID of version 8 from its SHA-256. The rule must never change, because all releases share the index.
 */
export function toKey(id: string): string {
  const lowerCaseId = id.toLowerCase();
  return isUuid(lowerCaseId) ? lowerCaseId : toHashKey(id, "8", "8");
}

/**
 * Namespaces of hashed keys. Hashing keeps these keys apart from plain ids, which other programs can choose in event
 * data.
 */
type KeyPurpose = "clinic" | "correlation" | "stream" | "accessed" | "accessed clinic";

/** Returns the key of an id for one purpose. The key has version 0 and variant f, which no UUID of RFC 9562 has. */
export function toPurposeKey(purpose: KeyPurpose, id: string): string {
  return toHashKey(`${purpose} ${toKey(id)}`, "0", "f");
}

/** Key of accesses by correlation id or application, which can return records of several clinics. */
export const SHARED_ACCESS_KEY = toHashKey("accessed several clinics", "0", "f");

function toHashKey(text: string, version: string, variant: string): string {
  const hex = createHash("sha256").update(text).digest("hex");
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, `$1-$2-${version}$3-${variant}$4-$5`);
}

/** Returns true if a text is a UUID in lower case that is its own key. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}
