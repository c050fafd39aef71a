export interface SecretReader {
  /** Decrypts a secret. @throws if the encryption key is unknown or the encrypted text is damaged */
  open(encrypted: string): Promise<string>;
}

const MAX_CACHED_SECRETS = 1_000;

/** Creates a reader that caches decrypted secrets, so that it need not decrypt a secret again for every delivery. */
export function createSecretCache(reader: SecretReader): SecretReader {
  const opened = new Map<string, Promise<string>>();
  return {
    open(encrypted) {
      const secret = opened.get(encrypted) ?? reader.open(encrypted);
      opened.delete(encrypted);
      opened.set(encrypted, secret);
      secret.catch(() => opened.delete(encrypted));
      const oldest = opened.keys().next().value;
      if (opened.size > MAX_CACHED_SECRETS && oldest !== undefined) opened.delete(oldest);
      return secret;
    },
  };
}
