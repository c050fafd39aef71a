import { createCipheriv, createDecipheriv, randomFillSync } from "node:crypto";

const ALGORITHM = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Random bytes for the next nonces. A separate call for each nonce would double the time of an encryption. */
const nonceBytes = Buffer.alloc(512 * NONCE_BYTES);
let nextNonceOffset = nonceBytes.length;

/**
 * Encrypts bytes with AES-256-GCM.
 *
 * @param context additional authenticated data, which decryption requires again
 * @returns nonce (12 bytes), ciphertext and tag (16 bytes), concatenated
 */
export function encrypt(key: Buffer, plaintext: Buffer | string, context: string): Buffer {
  const nonce = takeNonce();
  const cipher = createCipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(Buffer.from(context));
  const ciphertext = typeof plaintext === "string" ? cipher.update(plaintext, "utf8") : cipher.update(plaintext);
  cipher.final();
  return Buffer.concat([nonce, ciphertext, cipher.getAuthTag()]);
}

/** Returns a random nonce. The caller must use it at once, because a later call overwrites its bytes. */
function takeNonce(): Buffer {
  if (nextNonceOffset === nonceBytes.length) {
    randomFillSync(nonceBytes);
    nextNonceOffset = 0;
  }
  const nonce = nonceBytes.subarray(nextNonceOffset, nextNonceOffset + NONCE_BYTES);
  nextNonceOffset += NONCE_BYTES;
  return nonce;
}

/**
 * Decrypts the output of {@link encrypt}.
 *
 * @throws an error of node:crypto if the key or the context is wrong, or if the bytes were changed
 */
export function decrypt(key: Buffer, encryptedBytes: Buffer, context: string): Buffer {
  const decipher = createDecipheriv(ALGORITHM, key, encryptedBytes.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(Buffer.from(context));
  const tagStart = Math.max(NONCE_BYTES, encryptedBytes.length - TAG_BYTES);
  decipher.setAuthTag(encryptedBytes.subarray(tagStart));
  const plaintext = decipher.update(encryptedBytes.subarray(NONCE_BYTES, tagStart));
  decipher.final();
  return plaintext;
}
