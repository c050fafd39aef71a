import type { webcrypto } from "node:crypto";
import { createRemoteJWKSet, errors, type JWTVerifyGetKey, jwtVerify } from "jose";
import { z } from "zod";
import { uuid } from "../../shared/domain/events/fields.ts";
import { ApiError, createUnavailableError } from "../../shared/http/api-error.ts";
import { type Config, ConfigError } from "../../shared/runtime/config.ts";
import { LruMap } from "../../shared/runtime/lru.ts";
import { extractAccessToken } from "./session-cookie.ts";

export interface PortalSession {
  userId: string;
}

/**
 * Verifies the portal session that a request carries.
 *
 * @param cookieHeader the request's Cookie header
 * @param now milliseconds since 1970
 * @throws {ApiError} 401 `authentication_required` or `session_expired`; 503 `session_keys_unavailable` if the identity
 * provider's public keys cannot be fetched
 */
export type SessionVerifier = (cookieHeader: string | undefined, now: number) => Promise<PortalSession>;

export type SessionSettings = Config<
  "PORTAL_COOKIE_NAME" | "PORTAL_JWT_ISSUER" | "PORTAL_JWT_SECRET" | "PORTAL_JWKS_URL"
>;

/** Time limit for fetching the identity provider's public keys. */
const KEY_FETCH_TIMEOUT_MS = 2_000;

/** Maximum number of cached sessions. A cache helps because a browser sends the same cookie with every request. */
const MAX_CACHED_SESSIONS = 2_000;

/** Time after which a cached session is verified again, in case the provider has withdrawn the signing key. */
const MAX_CACHE_AGE_MS = 60_000;

interface CachedSession {
  session: PortalSession;
  /** Milliseconds since 1970. */
  validUntil: number;
}

/** The role distinguishes a user's token from the anon and service-role keys, which the same provider signs. */
const claimsSchema = z.object({ sub: uuid, role: z.literal("authenticated"), exp: z.number() });

/** @throws {ConfigError} if neither a secret nor public keys are configured */
export function createSessionVerifier(settings: SessionSettings): SessionVerifier {
  const { algorithms, key } = createSessionKeys(settings);
  const cache = new LruMap<string, CachedSession>(MAX_CACHED_SESSIONS);
  return async (cookieHeader = "", now) => {
    const cachedSession = cache.get(cookieHeader);
    if (cachedSession && now < cachedSession.validUntil) return cachedSession.session;
    const token = extractAccessToken(cookieHeader, settings.PORTAL_COOKIE_NAME);
    if (token === undefined) throw new ApiError(401, "authentication_required");
    try {
      const { payload } = await jwtVerify(token, key, {
        algorithms,
        issuer: settings.PORTAL_JWT_ISSUER,
        audience: "authenticated",
        requiredClaims: ["exp", "sub"],
        currentDate: new Date(now),
      });
      const { sub: userId, exp } = claimsSchema.parse(payload);
      const session = { userId };
      cache.set(cookieHeader, { session, validUntil: Math.min(exp * 1_000, now + MAX_CACHE_AGE_MS) });
      return session;
    } catch (error) {
      if (error instanceof errors.JWTExpired) {
        throw new ApiError(401, "session_expired", { cause: error });
      }
      if (error instanceof errors.JOSEError || error instanceof z.ZodError) {
        throw new ApiError(401, "authentication_required", { cause: error });
      }
      throw error;
    }
  };
}

/** Selects the key by algorithm, so that a public key is never used as a shared secret or vice versa. */
function createSessionKeys(settings: SessionSettings): { algorithms: string[]; key: JWTVerifyGetKey } {
  const { PORTAL_JWT_SECRET: secretText, PORTAL_JWKS_URL: url } = settings;
  const secret = secretText === undefined ? undefined : importSharedSecret(secretText);
  const getPublicKey = url === undefined ? undefined : createPublicKeyLookup(new URL(url));
  if (!secret && !getPublicKey) {
    throw new ConfigError(
      "settings: PORTAL_JWT_SECRET or PORTAL_JWKS_URL is missing; set at least one to verify portal sessions",
    );
  }
  return {
    algorithms: [...(secret ? ["HS256"] : []), ...(getPublicKey ? ["ES256", "RS256"] : [])],
    async key(header, token) {
      if (header.alg === "HS256" && secret) return secret;
      if (header.alg !== "HS256" && getPublicKey) return getPublicKey(header, token);
      throw new errors.JOSEAlgNotAllowed("No key is configured for this algorithm.");
    },
  };
}

/** Imports the shared secret once, because jose would import a KeyObject again for every token. */
function importSharedSecret(text: string): Promise<webcrypto.CryptoKey> {
  return crypto.subtle.importKey("raw", Buffer.from(text), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

function createPublicKeyLookup(url: URL): JWTVerifyGetKey {
  const getRemoteKey = createRemoteJWKSet(url, { timeoutDuration: KEY_FETCH_TIMEOUT_MS });
  return async (header, token) => {
    try {
      return await getRemoteKey(header, token);
    } catch (error) {
      const isTokenError =
        error instanceof errors.JWKSNoMatchingKey ||
        error instanceof errors.JWKSMultipleMatchingKeys ||
        error instanceof errors.JOSENotSupported;
      throw isTokenError ? error : createUnavailableError("session_keys_unavailable", error);
    }
  };
}
