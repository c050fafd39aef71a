import { CompactEncrypt, compactDecrypt, type DecryptOptions, decodeProtectedHeader } from "jose";
import type { Config } from "../runtime/config.ts";

export interface SecretBox {
  /**
   * Encrypts a secret with the current key.
   *
   * @returns a compact JWE whose header contains the key's id
   */
  seal(secret: string): Promise<string>;
  /**
   * Decrypts a secret with the key that is named in the header of its JWE.
   *
   * @throws {SecretBoxError}
   */
  open(sealedSecret: string): Promise<string>;
  isSealedWithCurrentKey(sealedSecret: string): boolean;
}

/** Thrown if a secret cannot be decrypted, because the encrypted secret is malformed or the key is not configured. */
export class SecretBoxError extends Error {
  override readonly name = "SecretBoxError";
}

const DECRYPT_OPTIONS: DecryptOptions = {
  keyManagementAlgorithms: ["dir"],
  contentEncryptionAlgorithms: ["A256GCM"],
};

/**
 * Creates a secret box with AES-256-GCM keys. The current key is used for encryption, and all keys are used for
 * decryption. To rotate, add a new key, make it current, and remove the old key when no stored secret uses it.
 */
export function createSecretBox(config: Config<"WEBHOOK_SECRET_KEYS">["WEBHOOK_SECRET_KEYS"]): SecretBox {
  const keys = new Map(
    Object.entries(config.keys).map(([id, key]) => [id, new Uint8Array(Buffer.from(key, "base64"))]),
  );
  const getKey = (id: string | undefined): Uint8Array => {
    const key = keys.get(id ?? "");
    if (!key) throw new SecretBoxError(`key ${id ?? "without an id"} is not in WEBHOOK_SECRET_KEYS`);
    return key;
  };
  return {
    async seal(secret) {
      return new CompactEncrypt(new TextEncoder().encode(secret))
        .setProtectedHeader({ alg: "dir", enc: "A256GCM", kid: config.current })
        .encrypt(getKey(config.current));
    },
    async open(sealedSecret) {
      try {
        const { plaintext } = await compactDecrypt(sealedSecret, ({ kid }) => getKey(kid), DECRYPT_OPTIONS);
        return new TextDecoder().decode(plaintext);
      } catch (error) {
        if (error instanceof SecretBoxError) throw error;
        throw new SecretBoxError("the secret cannot be decrypted", { cause: error });
      }
    },
    isSealedWithCurrentKey: (sealedSecret) => decodeProtectedHeader(sealedSecret).kid === config.current,
  };
}
