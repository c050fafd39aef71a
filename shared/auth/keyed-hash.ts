import { createHmac, hkdfSync } from "node:crypto";
import type { Config } from "../runtime/config.ts";

/** Computes HMACs (SHA-256, hex). Without the key, nobody can find a hashed text by trying all possible texts. */
export interface KeyedHash {
  /** Returns the HMAC with the current key. */
  hash(text: string): string;
  /** Returns the HMACs with the current key and with all former keys that are still configured. */
  listHashes(text: string): string[];
}

/** Creates a keyed hash for one purpose. The HMAC keys are derived from the master keys of personal data. */
export function createKeyedHash(
  { current, keys }: Config<"PERSONAL_DATA_KEYS">["PERSONAL_DATA_KEYS"],
  purpose: string,
): KeyedHash {
  const deriveKey = (masterKey: string) => hkdfSync("sha256", Buffer.from(masterKey, "base64"), "", purpose, 32);
  const hmacKeys = new Map(Object.entries(keys).map(([id, key]) => [id, Buffer.from(deriveKey(key))]));
  const hashWith = (key: Buffer, text: string) => createHmac("sha256", key).update(text).digest("hex");
  return {
    hash: (text) => hashWith(hmacKeys.get(current) as Buffer, text),
    listHashes: (text) => Array.from(hmacKeys.values(), (key) => hashWith(key, text)),
  };
}
