import { errors, type JWTVerifyGetKey, jwtVerify } from "jose";
import { z } from "zod";
import { type Environment, uuid } from "../domain/events/fields.ts";
import { type Scope, scope } from "../domain/events/partner.ts";
import { ApiError, unavailable } from "../http/api-error.ts";

/** A token is good for this long. Seconds. */
export const TOKEN_LIFETIME = 900;

/** What a partner's access token says, once it is known to be ours. */
export interface AccessToken {
  applicationId: string;
  /** The secret that it was exchanged for. */
  credentialId: string;
  environment: Environment;
  scopes: Scope[];
}

/** The audience of an environment's tokens: they are worth nothing at the other's base. */
export function audience(issuer: string, environment: Environment): string {
  return `${issuer}/${environment}/v1`;
}

const claims = z.object({
  client_id: uuid,
  credential_id: uuid,
  environment: z.enum(["sandbox", "production"]),
  scope: z
    .string()
    .transform((text) => text.split(" "))
    .pipe(z.array(scope)),
});

/**
 * Verifies an access token for a base.
 *
 * @param authorization every Authorization header of the request
 */
export type TokenVerifier = (
  authorization: readonly string[],
  environment: Environment,
) => Promise<AccessToken>;

/**
 * Verifies Bearer tokens of the partner API: JWT access tokens (RFC 9068), signed with EdDSA by a published key.
 * A token that is missing, malformed, forged, expired or of the other environment is refused with 401.
 *
 * @param keys the issuer's public keys
 * @throws {ApiError} 401 `missing_token` or `invalid_token`; 503 where the keys are out of reach
 */
export function createTokenVerifier(keys: JWTVerifyGetKey, issuer: string): TokenVerifier {
  return async (authorization, environment) => {
    // Of several headers nobody can say which one whoever stands between has looked at.
    if (authorization.length > 1) throw refusal("invalid_token");
    const token = /^Bearer +([A-Za-z0-9._~+/=-]+)$/i.exec(authorization[0] ?? "")?.[1];
    if (token === undefined) throw refusal("missing_token");
    try {
      const { payload } = await jwtVerify(token, keys, {
        algorithms: ["EdDSA"],
        typ: "at+jwt",
        issuer,
        audience: audience(issuer, environment),
        requiredClaims: ["exp", "iat", "sub", "jti"],
      });
      const claimed = claims.parse(payload);
      if (claimed.environment !== environment) throw refusal("invalid_token");
      return {
        applicationId: claimed.client_id,
        credentialId: claimed.credential_id,
        environment,
        scopes: claimed.scope,
      };
    } catch (error) {
      if (error instanceof ApiError) throw error;
      if (isTokenFault(error)) throw refusal("invalid_token", error);
      throw unavailable("token_keys_unavailable", error);
    }
  };
}

/** What jose and zod say about the token itself; anything else is about the keys. */
function isTokenFault(error: unknown): boolean {
  return (
    error instanceof z.ZodError ||
    error instanceof errors.JWSInvalid ||
    error instanceof errors.JWTInvalid ||
    error instanceof errors.JWTExpired ||
    error instanceof errors.JWTClaimValidationFailed ||
    error instanceof errors.JWSSignatureVerificationFailed ||
    error instanceof errors.JWKSNoMatchingKey ||
    // A token that names no key, while several are published.
    error instanceof errors.JWKSMultipleMatchingKeys ||
    error instanceof errors.JOSEAlgNotAllowed ||
    error instanceof errors.JOSENotSupported
  );
}

function refusal(code: "missing_token" | "invalid_token", cause?: unknown): ApiError {
  const challenge = code === "missing_token" ? "Bearer" : 'Bearer error="invalid_token"';
  return new ApiError(401, code, { headers: { "WWW-Authenticate": challenge }, cause });
}
