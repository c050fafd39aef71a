import { createHmac, hkdfSync, randomInt } from "node:crypto";
import { deriveAnimalLinkId } from "../../shared/domain/events/ids.ts";
import type { Config } from "../../shared/runtime/config.ts";

/** Crockford's Base32: no letter looks or sounds like a digit. */
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** Characters of a code, 5 bits each: 60 bits. */
const CODE_LENGTH = 12;

const GROUP_PATTERN = /.{4}(?=.)/g;

export interface LinkCodes {
  /** Generates a code, and derives the id of the link that the code creates. */
  generate(): { code: string; linkId: string };
  /**
   * Derives the ids of the links that a code may have created, one for each key.
   *
   * @param code as a person has typed it: in any case, with or without hyphens and spaces
   */
  listLinkIds(code: string): string[];
}

/**
 * Creates the generator of link codes. The log contains only ids that are derived from an HMAC of the code, so that
 * nobody can find a code by trying all codes without the key. The HMAC keys are derived from the master keys of personal
 * data. A code therefore becomes invalid if its master key is removed.
 */
export function createLinkCodes({ current, keys }: Config<"PERSONAL_DATA_KEYS">["PERSONAL_DATA_KEYS"]): LinkCodes {
  const hmacKeys = new Map(Object.entries(keys).map(([id, key]) => [id, deriveHmacKey(key)]));
  const deriveLinkId = (code: string, key: Buffer) =>
    deriveAnimalLinkId(createHmac("sha256", key).update(normalizeLinkCode(code)).digest("hex"));
  return {
    generate() {
      const characters = Array.from({ length: CODE_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");
      const code = characters.replace(GROUP_PATTERN, "$&-");
      return { code, linkId: deriveLinkId(code, hmacKeys.get(current) as Buffer) };
    },
    listLinkIds: (code) => Array.from(hmacKeys.values(), (key) => deriveLinkId(code, key)),
  };
}

/** Converts a typed code to the form of the HMAC. The letters O, I and L, which no code contains, count as digits. */
export function normalizeLinkCode(code: string): string {
  return code.toUpperCase().replace(/[\s-]/g, "").replaceAll("O", "0").replace(/[IL]/g, "1");
}

function deriveHmacKey(masterKey: string): Buffer {
  return Buffer.from(hkdfSync("sha256", Buffer.from(masterKey, "base64"), "", "animal link codes", 32));
}
