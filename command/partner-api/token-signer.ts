import { CompactSign, type JSONWebKeySet } from "jose";
import type Koa from "koa";
import { type AccessToken, buildAudience, TOKEN_LIFETIME_SECONDS } from "../../shared/auth/access-token.ts";
import { importSigningKeys } from "../../shared/auth/signing-keys.ts";
import type { Environment } from "../../shared/domain/events/fields.ts";
import { scopes } from "../../shared/domain/events/partner.ts";
import type { RequestState } from "../../shared/http/app.ts";
import { partnerOperations } from "../../shared/partner-api/operations.ts";
import type { Config } from "../../shared/runtime/config.ts";

const textEncoder = new TextEncoder();

export type TokenSigner = Awaited<ReturnType<typeof createTokenSigner>>;

/** @throws {StartError} if a key is not an Ed25519 private key */
export async function createTokenSigner(
  keys: Config<"TOKEN_SIGNING_KEYS">["TOKEN_SIGNING_KEYS"]["keys"],
  issuer: string,
) {
  const { key, kid, jwks } = await importSigningKeys("TOKEN_SIGNING_KEYS", keys);
  return {
    /** Public keys that verify the tokens, including retired keys whose tokens may still be in use. */
    jwks,
    /**
     * Signs an access token with the first key.
     *
     * @param now issuing time, milliseconds since 1970
     * @returns a JWT access token (RFC 9068)
     */
    sign({ applicationId, credentialId, environment, scopes: granted }: AccessToken, jti: string, now: number) {
      const issuedAtSeconds = Math.floor(now / 1000);
      const claims = {
        client_id: applicationId,
        credential_id: credentialId,
        environment,
        scope: granted.join(" "),
        iss: issuer,
        aud: buildAudience(issuer, environment),
        sub: applicationId,
        jti,
        iat: issuedAtSeconds,
        exp: issuedAtSeconds + TOKEN_LIFETIME_SECONDS,
      };
      // `SignJWT` would first clone the claims, which takes longer than serializing them.
      return new CompactSign(textEncoder.encode(JSON.stringify(claims)))
        .setProtectedHeader({ alg: "EdDSA", typ: "at+jwt", kid })
        .sign(key);
    },
  };
}

export const KEYS_PATH = "/.well-known/jwks.json";

/** Cache-Control header of public documents about tokens and keys. Clients may cache them for five minutes. */
const PUBLIC_CACHE_CONTROL = "public, max-age=300";

export function publishKeys(jwks: JSONWebKeySet): Koa.Middleware<RequestState> {
  return (ctx) => {
    ctx.set("Cache-Control", PUBLIC_CACHE_CONTROL);
    ctx.body = jwks;
  };
}

/**
 * Returns the path of the metadata of an environment's authorization server. RFC 8414 inserts the well-known path
 * between the origin and the path of the issuer.
 */
export function getServerMetadataPath(environment: Environment): string {
  return buildAudience("/.well-known/oauth-authorization-server", environment);
}

/**
 * Creates a middleware that returns the metadata of an environment's authorization server (RFC 8414). Each environment
 * has its own token operation, and therefore its own issuer: the base URL of the environment.
 */
export function publishServerMetadata(origin: string, environment: Environment): Koa.Middleware<RequestState> {
  const issuer = buildAudience(origin, environment);
  const metadata = {
    issuer,
    token_endpoint: `${issuer}${partnerOperations.exchangeToken.path}`,
    token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post"],
    grant_types_supported: ["client_credentials"],
    // The member is required, but there is no authorization endpoint.
    response_types_supported: [],
    scopes_supported: scopes,
    jwks_uri: `${origin}${KEYS_PATH}`,
    service_documentation: `${origin}/docs`,
  };
  return (ctx) => {
    ctx.set("Cache-Control", PUBLIC_CACHE_CONTROL);
    ctx.body = metadata;
  };
}
