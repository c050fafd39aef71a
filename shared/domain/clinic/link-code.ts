/** Crockford's Base32: no letter looks or sounds like a digit. */
export const LINK_CODE_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** Number of characters in a link code. Each character encodes 5 bits, so a code has 60 bits. */
export const LINK_CODE_LENGTH = 12;

const PATTERN = new RegExp(`^[${LINK_CODE_ALPHABET}]{${LINK_CODE_LENGTH}}$`);

/**
 * Reduces a copied or typed code to letters and digits. Copying can replace characters by similar ones, such as dashes
 * and full-width letters. The letters O, I and L, which no code contains, become digits.
 */
export function normalizeLinkCode(code: string): string {
  const characters = code.normalize("NFKC").replace(/[^\p{L}\p{N}]/gu, "");
  return characters.toUpperCase().replaceAll("O", "0").replace(/[IL]/g, "1");
}

/** Returns true if the text has the form of a link code. */
export function isLinkCode(text: string): boolean {
  return PATTERN.test(normalizeLinkCode(text));
}
