import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";

const ALGORITHM = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Encrypts bytes with AES-256-GCM and a random nonce.
 *
 * @param context additional authenticated data, which decryption requires again
 * @returns nonce (12 bytes), ciphertext and tag (16 bytes), concatenated
 */
export function encrypt(key: Buffer, plaintext: Buffer | string, context: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(Buffer.from(context));
  const ciphertext = typeof plaintext === "string" ? cipher.update(plaintext, "utf8") : cipher.update(plaintext);
  cipher.final();
  return Buffer.concat([nonce, ciphertext, cipher.getAuthTag()]);
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
