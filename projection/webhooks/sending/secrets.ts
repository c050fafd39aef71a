export interface SecretReader {
  /** Decrypts a secret. @throws if the encryption key is unknown or the encrypted text is damaged */
  open(encryptedSecret: string): Promise<string>;
}

/** Enough for the secrets and custom headers of a few hundred endpoints. */
const MAX_CACHED_SECRETS = 4_000;

/** Creates a reader that caches decrypted secrets, so that it need not decrypt a secret again for every delivery. */
export function createSecretCache(reader: SecretReader): SecretReader {
  const openedSecrets = new Map<string, Promise<string>>();
  return {
    open(encryptedSecret) {
      const secretPromise = openedSecrets.get(encryptedSecret) ?? reader.open(encryptedSecret);
      openedSecrets.delete(encryptedSecret);
      openedSecrets.set(encryptedSecret, secretPromise);
      secretPromise.catch(() => openedSecrets.delete(encryptedSecret));
      const oldestKey = openedSecrets.keys().next().value;
      if (openedSecrets.size > MAX_CACHED_SECRETS && oldestKey !== undefined) openedSecrets.delete(oldestKey);
      return secretPromise;
    },
  };
}
