import { createLocalJWKSet, createRemoteJWKSet, type JWTVerifyGetKey } from "jose";
import { TOKEN_LIFETIME } from "../../shared/auth/access-token.ts";
import { createCircuit } from "../../shared/http/circuit.ts";
import type { Logger } from "../../shared/runtime/logger.ts";

/** How long keys are taken for what is published. Milliseconds. */
export interface KeysAge {
  /** After this they are fetched again, so that a key that was taken back is worth nothing from then on. */
  freshFor: number;
  /** A key that is not among them has them fetched again after this. */
  newKeyAfter: number;
}

const AGE: KeysAge = { freshFor: 60_000, newKeyAfter: 5_000 };

/** The keys arrive within this, or count as out of reach. Milliseconds. */
const ANSWER_WITHIN = 2_000;

/** Of keys that cannot be fetched again. Milliseconds. */
const KEPT_FOR = TOKEN_LIFETIME * 1000;

/**
 * The public keys of partner access tokens, fetched and kept. While they are out of reach, those that were had last go
 * on for as long as a token lives: after that nothing is left that they could verify.
 *
 * @param url where they are published
 * @returns throws where the keys are out of reach and none are kept
 */
export function createTokenKeys(url: URL, logger: Logger, age: KeysAge = AGE): JWTVerifyGetKey {
  const remote = createRemoteJWKSet(url, {
    timeoutDuration: ANSWER_WITHIN,
    cacheMaxAge: age.freshFor,
    cooldownDuration: age.newKeyAfter,
  });
  const circuit = createCircuit({
    answerTimeoutMs: ANSWER_WITHIN,
    onFailure: (error) => logger.warn({ error }, "token keys cannot be fetched"),
  });
  let freshAt = Number.NEGATIVE_INFINITY;
  return async (header, token) => {
    try {
      if (!remote.fresh) await circuit(() => remote.reload());
    } catch (unreachable) {
      const kept = remote.jwks();
      if (!kept || performance.now() - freshAt > KEPT_FOR) throw unreachable;
      try {
        return await createLocalJWKSet(kept)(header, token);
      } catch {
        // A key that is not among them may have come since.
        throw unreachable;
      }
    }
    freshAt = performance.now();
    return remote(header, token);
  };
}
