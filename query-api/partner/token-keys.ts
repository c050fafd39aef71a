import { createLocalJWKSet, createRemoteJWKSet, type JWTVerifyGetKey } from "jose";
import { TOKEN_LIFETIME } from "../../shared/auth/access-token.ts";
import { createCircuit } from "../../shared/http/circuit.ts";
import type { Logger } from "../../shared/runtime/logger.ts";

/** Caching of published keys. */
export interface KeyCaching {
  /** Keys are fetched again after this time, so that a withdrawn key becomes invalid. */
  maxAgeMs: number;
  /** Minimum time between two fetches because of an unknown key id. */
  cooldownMs: number;
}

const CACHING: KeyCaching = { maxAgeMs: 60_000, cooldownMs: 5_000 };

/** Time limit of a fetch. */
const KEY_FETCH_TIMEOUT_MS = 2_000;

/** Maximum age of keys while they cannot be fetched: the lifetime of a token. */
const MAX_STALE_MS = TOKEN_LIFETIME * 1000;

/**
 * Fetches and caches the public keys of partner access tokens. While the keys cannot be fetched, the cached keys stay
 * in use for the lifetime of a token. After that time no token exists that they could verify.
 *
 * @param url URL of the published keys
 * @returns a key lookup that throws if the keys cannot be fetched and no usable ones are cached
 */
export function createTokenKeys(url: URL, logger: Logger, caching: KeyCaching = CACHING): JWTVerifyGetKey {
  const remote = createRemoteJWKSet(url, {
    timeoutDuration: KEY_FETCH_TIMEOUT_MS,
    cacheMaxAge: caching.maxAgeMs,
    cooldownDuration: caching.cooldownMs,
  });
  const circuit = createCircuit({
    responseTimeoutMs: KEY_FETCH_TIMEOUT_MS,
    onFailure: (error) => logger.warn({ error }, "Token keys cannot be fetched; using the cached ones."),
  });
  let freshAt = Number.NEGATIVE_INFINITY;
  return async (header, token) => {
    try {
      if (!remote.fresh) await circuit(() => remote.reload());
    } catch (unreachable) {
      const kept = remote.jwks();
      if (!kept || performance.now() - freshAt > MAX_STALE_MS) throw unreachable;
      try {
        return await createLocalJWKSet(kept)(header, token);
      } catch {
        // The key may have been published since the last fetch.
        throw unreachable;
      }
    }
    freshAt = performance.now();
    return remote(header, token);
  };
}
