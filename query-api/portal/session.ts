import { hash, type webcrypto } from "node:crypto";
import { errors, type JWTVerifyGetKey, jwtVerify } from "jose";
import { LRUCache } from "lru-cache";
import { z } from "zod";
import { uuid } from "../../shared/domain/events/fields.ts";
import { ApiError, createUnavailableError } from "../../shared/http/api-error.ts";
import { type Config, ConfigError } from "../../shared/runtime/config.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { createRemoteKeys } from "../http/remote-keys.ts";

interface PortalSession {
  userId: string;
}

/**
 * Verifies the portal session that a request carries.
 *
 * @param cookieHeader the request's Cookie header
 * @param now milliseconds since 1970
 * @throws {ApiError} 401 `authentication_required` or `session_expired`; 503 `session_keys_unavailable` if the identity
 * provider's public keys cannot be fetched or used
 */
export type SessionVerifier = (cookieHeader: string | undefined, now: number) => Promise<PortalSession>;

export type SessionSettings = Config<
  "PORTAL_COOKIE_NAME" | "PORTAL_JWT_ISSUER" | "PORTAL_JWT_SECRET" | "PORTAL_JWKS_URL"
>;

/**
 * Time for which cached keys stay in use while the identity provider is unavailable. Equals the provider's default
 * token lifetime.
 */
const MAX_STALE_KEY_AGE_MS = 60 * 60_000;

const MIN_RSA_KEY_BITS = 2_048;

/**
 * Maximum memory for verified sessions, in bytes: about 10,000 sessions. A cache helps because a browser sends the same
 * cookie with every request.
 */
const MAX_CACHE_BYTES = 4 * 1024 * 1024;

const SESSION_BYTES = 400;

/** Time after which a cached session is verified again, in case the provider has withdrawn the signing key. */
const MAX_CACHE_AGE_MS = 60_000;

interface CachedSession {
  session: PortalSession;
  /** Milliseconds since 1970. */
  validUntil: number;
}

/**
 * Claims of a session's token. The role distinguishes a user's token from the anon and service-role keys, which the
 * same provider signs.
 */
const claimsSchema = z.object({ sub: uuid, role: z.literal("authenticated"), exp: z.number() });

/**
 * Creates a verifier for portal sessions. Caches verified sessions for up to a minute.
 *
 * @throws {ConfigError} if neither a secret nor public keys are configured
 */
export async function createSessionVerifier(settings: SessionSettings, logger: Logger): Promise<SessionVerifier> {
  const { algorithms, key } = await createSessionKeys(settings, logger);
  const cache = new LRUCache<string, CachedSession>({
    maxSize: MAX_CACHE_BYTES,
    sizeCalculation: () => SESSION_BYTES,
  });
  return async (cookieHeader, now) => {
    const sessionCookies = selectCookies(cookieHeader ?? "", settings.PORTAL_COOKIE_NAME);
    const digest = hash("sha256", sessionCookies, "base64");
    const cachedSession = cache.get(digest);
    if (cachedSession && now < cachedSession.validUntil) return cachedSession.session;
    const token = extractAccessToken(sessionCookies, settings.PORTAL_COOKIE_NAME);
    if (token === undefined) throw createSessionError("authentication_required");
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
      cache.set(digest, { session, validUntil: Math.min(exp * 1_000, now + MAX_CACHE_AGE_MS) });
      return session;
    } catch (error) {
      if (error instanceof errors.JWTExpired) throw createSessionError("session_expired", error);
      if (error instanceof errors.JOSEError || error instanceof z.ZodError)
        throw createSessionError("authentication_required", error);
      throw error;
    }
  };
}

/** Creates a 401 with the required challenge (RFC 9110, section 15.5.2). Browsers ignore its unregistered scheme. */
function createSessionError(code: "authentication_required" | "session_expired", cause?: unknown): ApiError {
  return new ApiError(401, code, { headers: { "WWW-Authenticate": 'Cookie realm="portal"' }, cause });
}

/** Creates a key lookup by algorithm, so that a public key is never used as a shared secret or vice versa. */
async function createSessionKeys(
  settings: SessionSettings,
  logger: Logger,
): Promise<{ algorithms: string[]; key: JWTVerifyGetKey }> {
  const { PORTAL_JWT_SECRET: secretText, PORTAL_JWKS_URL: url } = settings;
  const secret = secretText === undefined ? undefined : importSharedSecret(secretText);
  const getPublicKey = url === undefined ? undefined : await createPublicKeyLookup(new URL(url), logger);
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

async function createPublicKeyLookup(url: URL, logger: Logger): Promise<JWTVerifyGetKey> {
  const source = { url, name: "public keys of the portal's sessions", maxStaleAgeMs: MAX_STALE_KEY_AGE_MS };
  const getRemoteKey = await createRemoteKeys(source, logger);
  return async (header, token) => {
    try {
      const key = (await getRemoteKey(header, token)) as webcrypto.CryptoKey;
      // jose checks the length only when it verifies a signature, and throws a TypeError.
      const { modulusLength } = key.algorithm as webcrypto.RsaKeyAlgorithm;
      if (modulusLength < MIN_RSA_KEY_BITS)
        throw new Error(
          `key ${header.kid} in the public keys has ${modulusLength} bits instead of ${MIN_RSA_KEY_BITS}`,
        );
      return key;
    } catch (error) {
      const isTokenError =
        error instanceof errors.JWKSNoMatchingKey ||
        error instanceof errors.JWKSMultipleMatchingKeys ||
        error instanceof errors.JOSENotSupported;
      throw isTokenError ? error : createUnavailableError("session_keys_unavailable", error);
    }
  };
}

/** Selects the cookies whose names start with a prefix. Returns their text without the header's other cookies. */
function selectCookies(header: string, prefix: string): string {
  const cookies = header.split(";").filter((cookie) => cookie.trimStart().startsWith(prefix));
  return cookies.join(";");
}

/** Maximum number of cookies that contain one session. More cookies do not fit into the headers of a request. */
const MAX_CHUNKS = 10;

const BASE64_PREFIX = "base64-";

const sessionSchema = z.object({ access_token: z.string().min(1) });

/**
 * Extracts the access token from the portal's session cookie. The session is JSON, either as plain text, or as
 * base64url after the prefix `base64-`. The session is in one cookie, or in several cookies with the names `<name>.0`,
 * `<name>.1` and so on. Ignores the session's other fields, because they are not signed.
 *
 * @param header the Cookie header
 * @param name name of the session cookie
 * @returns undefined if there is no session, or the session is not readable
 */
export function extractAccessToken(header: string | undefined, name: string): string | undefined {
  const cookies = collectCookies(header ?? "", name);
  const cookie = cookies.get(name) ?? joinChunks(cookies, name);
  const sessionJson = cookie?.startsWith(BASE64_PREFIX) ? decodeBase64url(cookie.slice(BASE64_PREFIX.length)) : cookie;
  if (sessionJson === undefined) return undefined;
  try {
    return sessionSchema.safeParse(JSON.parse(sessionJson)).data?.access_token;
  } catch {
    return undefined; // The text is not JSON: a chunk is missing, or another program wrote the cookie.
  }
}

/**
 * Returns the session's cookies by name. If a name is repeated, the first cookie is used, as in the portal. Empty
 * cookies are omitted, because an empty cookie is a deleted cookie.
 */
function collectCookies(header: string, name: string): Map<string, string> {
  const cookies = new Map<string, string>();
  for (const pair of header.split(";")) {
    const separatorIndex = pair.indexOf("=");
    const key = pair.slice(0, Math.max(0, separatorIndex)).trim();
    if (key !== name && !key.startsWith(`${name}.`)) continue;
    const value = decodeValue(pair.slice(separatorIndex + 1).trim());
    if (!cookies.has(key)) cookies.set(key, value);
  }
  for (const [key, value] of cookies) if (value === "") cookies.delete(key);
  return cookies;
}

function decodeValue(text: string): string {
  const unquotedText = text.startsWith('"') && text.endsWith('"') && text.length > 1 ? text.slice(1, -1) : text;
  try {
    return decodeURIComponent(unquotedText);
  } catch {
    return unquotedText; // The text contains a % without two hex digits, so it is not percent-encoded.
  }
}

function joinChunks(cookies: Map<string, string>, name: string): string | undefined {
  const chunkCount = [...cookies.keys()].filter((key) => /^\d+$/.test(key.slice(name.length + 1))).length;
  if (chunkCount === 0 || chunkCount > MAX_CHUNKS) return undefined;
  const chunks = Array.from({ length: chunkCount }, (_, index) => cookies.get(`${name}.${index}`));
  return chunks.includes(undefined) ? undefined : chunks.join("");
}

function decodeBase64url(text: string): string | undefined {
  if (!/^[A-Za-z0-9_-]+={0,2}$/.test(text)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(text, "base64url"));
  } catch {
    return undefined; // The bytes are not UTF-8.
  }
}
