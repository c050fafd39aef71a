/** Decrypts secrets. */
export interface SecretReader {
  /** @throws if the key is unknown or the text is damaged */
  open(encrypted: string): Promise<string>;
}

const MAX_CACHED_SECRETS = 1_000;

/** Caches decrypted secrets, so that an endpoint's secret is not decrypted for each delivery. */
export function cachingSecrets(reader: SecretReader): SecretReader {
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
