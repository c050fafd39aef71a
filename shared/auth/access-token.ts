import { hash } from "node:crypto";
import { errors, type JWTVerifyGetKey, jwtVerify } from "jose";
import { LRUCache } from "lru-cache";
import { z } from "zod";
import { type Environment, uuid } from "../domain/events/fields.ts";
import { type Scope, scope } from "../domain/events/partner.ts";
import { ApiError, createUnavailableError } from "../http/api-error.ts";

export const TOKEN_LIFETIME_SECONDS = 900;

export interface AccessToken {
  applicationId: string;
  credentialId: string;
  environment: Environment;
  scopes: Scope[];
}

/**
 * Returns the audience claim (`aud`) of an environment's tokens. Sandbox and production have different audiences, so
 * that neither environment accepts the other's tokens.
 */
export function buildAudience(issuer: string, environment: Environment): string {
  return `${issuer}/${environment}/v1`;
}

export interface VerifiedToken extends AccessToken {
  /** Milliseconds since 1970. */
  expiresAt: number;
}

const claimsSchema = z.object({
  client_id: uuid,
  credential_id: uuid,
  environment: z.enum(["sandbox", "production"]),
  exp: z.number(),
  scope: z
    .string()
    .transform((text) => text.split(" "))
    .pipe(z.array(scope)),
});

/** Verifies the access token of a request. The token must belong to the given environment. */
export type TokenVerifier = (authHeaders: readonly string[], environment: Environment) => Promise<VerifiedToken>;

/**
 * Verifies Bearer tokens of the partner API: JWT access tokens (RFC 9068), signed with EdDSA by a published key.
 * Refuses missing, malformed, forged and expired tokens, and tokens of the other environment.
 *
 * @throws {ApiError} 401 `missing_token` or `invalid_token`; 503 if the keys are unavailable
 */
export function createTokenVerifier(getKey: JWTVerifyGetKey, issuer: string): TokenVerifier {
  return async (authHeaders, environment) => {
    const token = readBearerToken(authHeaders);
    try {
      const { payload } = await jwtVerify(token, getKey, {
        algorithms: ["EdDSA"],
        typ: "at+jwt",
        issuer,
        audience: buildAudience(issuer, environment),
        requiredClaims: ["exp", "iat", "sub", "jti"],
      });
      const claims = claimsSchema.parse(payload);
      if (claims.environment !== environment) throw createUnauthorizedError("invalid_token");
      return {
        applicationId: claims.client_id,
        credentialId: claims.credential_id,
        environment,
        scopes: claims.scope,
        expiresAt: claims.exp * 1_000,
      };
    } catch (error) {
      if (error instanceof ApiError) throw error;
      if (isTokenError(error)) throw createUnauthorizedError("invalid_token", error);
      throw createUnavailableError("token_keys_unavailable", error);
    }
  };
}

/** Maximum memory for the verified tokens of each environment: about 5,000 tokens. */
const MAX_CACHE_BYTES = 5 * 1024 * 1024;

const TOKEN_BYTES = 1_000;

/** Caches verified tokens until they expire. Suitable only if the keys do not change while the process runs. */
export function cacheVerifiedTokens(verifyToken: TokenVerifier): TokenVerifier {
  const newCache = () =>
    new LRUCache<string, VerifiedToken>({ maxSize: MAX_CACHE_BYTES, sizeCalculation: () => TOKEN_BYTES });
  const caches = { sandbox: newCache(), production: newCache() };
  return async (authHeaders, environment) => {
    // The digest has a fixed size. The caller decides on the length of the header.
    const digest = hash("sha256", readBearerToken(authHeaders), "base64");
    const cachedToken = caches[environment].get(digest);
    if (cachedToken && Date.now() < cachedToken.expiresAt) return cachedToken;
    const verifiedToken = await verifyToken(authHeaders, environment);
    caches[environment].set(digest, verifiedToken);
    return verifiedToken;
  };
}

function readBearerToken([authHeader = "", ...otherHeaders]: readonly string[]): string {
  // With several Authorization headers, a proxy could check one token, and this service another.
  if (otherHeaders.length > 0) throw createUnauthorizedError("invalid_token");
  const token = /^Bearer +([A-Za-z0-9._~+/=-]+)$/i.exec(authHeader)?.[1];
  if (token === undefined) throw createUnauthorizedError("missing_token");
  return token;
}

/** Returns true if the token caused a verification error. Any other error is a problem with the keys. */
function isTokenError(error: unknown): boolean {
  return (
    error instanceof z.ZodError ||
    error instanceof errors.JWSInvalid ||
    error instanceof errors.JWTInvalid ||
    error instanceof errors.JWTExpired ||
    error instanceof errors.JWTClaimValidationFailed ||
    error instanceof errors.JWSSignatureVerificationFailed ||
    error instanceof errors.JWKSNoMatchingKey ||
    // The token contains no key id, but several keys are published.
    error instanceof errors.JWKSMultipleMatchingKeys ||
    error instanceof errors.JOSEAlgNotAllowed ||
    error instanceof errors.JOSENotSupported
  );
}

export function createUnauthorizedError(code: "missing_token" | "invalid_token", cause?: unknown): ApiError {
  const challenge = code === "missing_token" ? "Bearer" : 'Bearer error="invalid_token"';
  return new ApiError(401, code, { headers: { "WWW-Authenticate": challenge }, cause });
}
