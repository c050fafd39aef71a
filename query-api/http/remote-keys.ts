import { createLocalJWKSet, createRemoteJWKSet, type JWTVerifyGetKey } from "jose";
import { Circuit } from "../../shared/runtime/circuit.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { withTimeout } from "../../shared/runtime/timeout.ts";

interface KeySource {
  url: URL;
  /** Name of the keys in log lines, for example "token keys". */
  name: string;
  /** Time for which cached keys remain in use if the keys cannot be fetched. */
  maxStaleAgeMs: number;
}

interface KeyCaching {
  /** Time after which a withdrawn key is rejected, if the keys can be fetched. */
  maxAgeMs: number;
  /** Minimum interval between two fetches that unknown key ids cause. */
  cooldownMs: number;
}

const DEFAULT_CACHING: KeyCaching = { maxAgeMs: 60_000, cooldownMs: 5_000 };

const FETCH_TIMEOUT_MS = 10_000;

/** Maximum time for which a request waits for keys. The fetch continues, so that later requests can use its keys. */
const WAIT_TIMEOUT_MS = 2_000;

/**
 * Fetches and caches public keys that verify tokens. If the keys cannot be fetched, the cached keys remain in use.
 *
 * Fetches the keys before it returns, so that the first requests after a restart do not wait for keys.
 *
 * @returns a key lookup that throws if the keys cannot be fetched and no usable keys are cached
 */
export async function createRemoteKeys(
  { url, name, maxStaleAgeMs }: KeySource,
  logger: Logger,
  caching: KeyCaching = DEFAULT_CACHING,
): Promise<JWTVerifyGetKey> {
  const remoteKeys = createRemoteJWKSet(url, {
    timeoutDuration: FETCH_TIMEOUT_MS,
    cacheMaxAge: caching.maxAgeMs,
    cooldownDuration: caching.cooldownMs,
  });
  const circuit = new Circuit({
    callTimeoutMs: WAIT_TIMEOUT_MS,
    onFailure: (error) => logger.warn({ error }, `Fetching the ${name} failed. Cached keys, if any, stay in use.`),
  });
  // A request repeats a failed fetch, and reports its failure.
  await remoteKeys.reload().catch(() => undefined);
  let lastFreshAt = remoteKeys.fresh ? performance.now() : Number.NEGATIVE_INFINITY;
  return async (header, token) => {
    try {
      if (!remoteKeys.fresh) await circuit.call(() => remoteKeys.reload());
    } catch (error) {
      const cachedKeys = remoteKeys.jwks();
      if (!cachedKeys || performance.now() - lastFreshAt > maxStaleAgeMs) throw error;
      try {
        return await createLocalJWKSet(cachedKeys)(header, token);
      } catch {
        // The token may be signed with a key that was published after the last fetch.
        throw error;
      }
    }
    lastFreshAt = performance.now();
    return withTimeout(WAIT_TIMEOUT_MS, remoteKeys(header, token));
  };
}
