import { CompactEncrypt, compactDecrypt, type DecryptOptions } from "jose";
import type { Config } from "../runtime/config.ts";

/** Encrypts secrets that must be stored and used again. */
export interface SecretBox {
  /** @returns a compact JWE under the current key, whose id stands in its header */
  seal(secret: string): Promise<string>;
  /**
   * @returns what was sealed, under the current key or a former one that is still configured
   * @throws {SecretBoxError}
   */
  open(sealed: string): Promise<string>;
}

/** Something that was not sealed here, or with a key that is no longer configured. */
export class SecretBoxError extends Error {
  override readonly name = "SecretBoxError";
}

const ALGORITHMS: DecryptOptions = {
  keyManagementAlgorithms: ["dir"],
  contentEncryptionAlgorithms: ["A256GCM"],
};

/**
 * A box with keys by id: AES-256-GCM, used directly. The current key seals, every key opens: a new key is added, made
 * current, and the former one taken out when nothing sealed with it is left.
 */
export function createSecretBox(config: Config<"WEBHOOK_SECRET_KEYS">["WEBHOOK_SECRET_KEYS"]): SecretBox {
  const keys = new Map(
    Object.entries(config.keys).map(([id, key]) => [id, new Uint8Array(Buffer.from(key, "base64"))]),
  );
  const keyOf = (id: string | undefined): Uint8Array => {
    const key = keys.get(id ?? "");
    if (!key) throw new SecretBoxError(`no key ${id ?? "without an id"} is configured`);
    return key;
  };
  return {
    async seal(secret) {
      return new CompactEncrypt(new TextEncoder().encode(secret))
        .setProtectedHeader({ alg: "dir", enc: "A256GCM", kid: config.current })
        .encrypt(keyOf(config.current));
    },
    async open(sealed) {
      try {
        const { plaintext } = await compactDecrypt(sealed, ({ kid }) => keyOf(kid), ALGORITHMS);
        return new TextDecoder().decode(plaintext);
      } catch (error) {
        if (error instanceof SecretBoxError) throw error;
        throw new SecretBoxError("the secret cannot be opened", { cause: error });
      }
    },
  };
}
