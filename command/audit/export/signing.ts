import { CompactSign, calculateJwkThumbprint, type JSONWebKeySet, type JWK } from "jose";
import { importSigningKeys } from "../../../shared/auth/signing-keys.ts";
import type { Config } from "../../../shared/runtime/config.ts";

/** Value of the `typ` header in the signature (JWS) of an export. */
export const SIGNATURE_TYPE = "audit-export+jws";

/** Signs exports, and provides the public keys that verify the signatures. */
export interface ExportSigner {
  /** Returns a compact JWS of the text. Its header contains the public key. The algorithm is EdDSA. */
  sign(text: string): Promise<string>;
  /** Public keys, including retired keys, because exports that were signed with retired keys must remain verifiable. */
  jwks: JSONWebKeySet;
  /** Thumbprint (RFC 7638, SHA-256) of the signing key. */
  thumbprint: string;
}

/**
 * Creates a signer that signs with the first key of the setting AUDIT_SIGNING_KEYS.
 *
 * @throws {StartError} if a key is not an Ed25519 private key
 */
export async function createExportSigner(config: Config<"AUDIT_SIGNING_KEYS">): Promise<ExportSigner> {
  const { keys } = config.AUDIT_SIGNING_KEYS;
  const { key, kid, publicKey, jwks } = await importSigningKeys("AUDIT_SIGNING_KEYS", keys);
  const { kty, crv, x } = publicKey;
  const header = { alg: "EdDSA", typ: SIGNATURE_TYPE, kid, jwk: { kty, crv, x } as JWK };
  return {
    jwks,
    thumbprint: await calculateJwkThumbprint(publicKey),
    sign: (text) => new CompactSign(Buffer.from(text, "utf8")).setProtectedHeader(header).sign(key),
  };
}
