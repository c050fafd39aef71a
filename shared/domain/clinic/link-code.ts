/** Crockford's Base32: no letter looks or sounds like a digit. */
export const LINK_CODE_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** Characters of a code, 5 bits each: 60 bits. */
export const LINK_CODE_LENGTH = 12;

const PATTERN = new RegExp(`^[${LINK_CODE_ALPHABET}]{${LINK_CODE_LENGTH}}$`);

/**
 * Converts a typed or copied code to its characters without hyphens. Messages replace characters by similar ones, such as
 * dashes and full-width letters. The letters O, I and L, which no code contains, count as digits.
 */
export function normalizeLinkCode(code: string): string {
  const characters = code.normalize("NFKC").replace(/[^\p{L}\p{N}]/gu, "");
  return characters.toUpperCase().replaceAll("O", "0").replace(/[IL]/g, "1");
}

/** Returns false if the text cannot be a code, so that its sender cannot have guessed a code. */
export function isLinkCode(text: string): boolean {
  return PATTERN.test(normalizeLinkCode(text));
}
