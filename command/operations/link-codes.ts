import { randomInt } from "node:crypto";
import { createKeyedHash } from "../../shared/auth/keyed-hash.ts";
import { LINK_CODE_ALPHABET, LINK_CODE_LENGTH, normalizeLinkCode } from "../../shared/domain/clinic/link-code.ts";
import { deriveAnimalLinkId } from "../../shared/domain/events/ids.ts";
import type { Config } from "../../shared/runtime/config.ts";

const GROUP_PATTERN = /.{4}(?=.)/g;

export type LinkCodes = ReturnType<typeof createLinkCodes>;

/**
 * Creates the functions that generate and resolve link codes. The log contains only ids that are derived from an HMAC
 * of the code. Without the HMAC key, nobody can find a code by trying all codes. The HMAC keys are derived from the
 * master keys of personal data, so a code becomes invalid if its master key is removed.
 */
export function createLinkCodes(config: Config<"PERSONAL_DATA_KEYS">["PERSONAL_DATA_KEYS"]) {
  const { hash, listHashes } = createKeyedHash(config, "animal link codes");
  return {
    /** Generates a code, and derives the id of the link that the code creates. */
    generate() {
      const characters = Array.from(
        { length: LINK_CODE_LENGTH },
        () => LINK_CODE_ALPHABET[randomInt(LINK_CODE_ALPHABET.length)],
      ).join("");
      const code = characters.replace(GROUP_PATTERN, "$&-");
      return { code, linkId: deriveAnimalLinkId(hash(normalizeLinkCode(code))) };
    },
    /**
     * Returns the possible ids of the link that a code creates, one for each HMAC key.
     *
     * @param code as a person has typed it, see {@link normalizeLinkCode}
     */
    listLinkIds: (code: string) => listHashes(normalizeLinkCode(code)).map(deriveAnimalLinkId),
  };
}
