import { CompactSign, type JSONWebKeySet } from "jose";
import { type AccessToken, buildAudience, TOKEN_LIFETIME_SECONDS } from "../../shared/auth/access-token.ts";
import { importSigningKeys } from "../../shared/auth/signing-keys.ts";
import type { Config } from "../../shared/runtime/config.ts";

const textEncoder = new TextEncoder();

export interface TokenSigner {
  /**
   * Signs an access token with the first key.
   *
   * @param now issuing time, milliseconds since 1970
   * @returns a JWT access token (RFC 9068)
   */
  sign(token: AccessToken, jti: string, now: number): Promise<string>;
  /** Public keys that verify the tokens, including retired keys whose tokens may still be in use. */
  jwks: JSONWebKeySet;
}

/** @throws {StartError} if a key is not an Ed25519 private key */
export async function createTokenSigner(
  keys: Config<"TOKEN_SIGNING_KEYS">["TOKEN_SIGNING_KEYS"]["keys"],
  issuer: string,
): Promise<TokenSigner> {
  const { key, kid, jwks } = await importSigningKeys("TOKEN_SIGNING_KEYS", keys);
  return {
    jwks,
    sign({ applicationId, credentialId, environment, scopes }, jti, now) {
      const issuedAtSeconds = Math.floor(now / 1000);
      const claims = {
        client_id: applicationId,
        credential_id: credentialId,
        environment,
        scope: scopes.join(" "),
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
