import { CompactSign, calculateJwkThumbprint, type JSONWebKeySet, type JWK } from "jose";
import { importSigningKeys } from "../../../shared/auth/signing-keys.ts";
import type { Config } from "../../../shared/runtime/config.ts";
import { type GetTrustedKey, trustKeys } from "./verify-key.ts";

/** Values of the `typ` header in the signatures (JWS), so that no signature can be used for another purpose. */
export const SIGNATURE_TYPES = { export: "audit-export+jws", treeHead: "audit-tree-head+jws" } as const;
export type SignatureType = (typeof SIGNATURE_TYPES)[keyof typeof SIGNATURE_TYPES];

/** Signs exports and tree heads, and provides the public keys that verify the signatures. */
export interface AuditSigner {
  /** Returns a compact JWS of the text. Its header contains the type and the public key. The algorithm is EdDSA. */
  sign(text: string, type: SignatureType): Promise<string>;
  /** Public keys, including retired keys, because signatures that were made with retired keys must remain verifiable. */
  jwks: JSONWebKeySet;
  /** Returns the key of a signature that was made with one of these keys. */
  getTrustedKey: GetTrustedKey;
  /** Thumbprint (RFC 7638, SHA-256) of the signing key. */
  thumbprint: string;
}

/**
 * Creates a signer that signs with the first key of the setting AUDIT_SIGNING_KEYS.
 *
 * @throws {StartError} if a key is not an Ed25519 private key
 */
export async function createAuditSigner(config: Config<"AUDIT_SIGNING_KEYS">): Promise<AuditSigner> {
  const { keys } = config.AUDIT_SIGNING_KEYS;
  const { key, kid, publicKey, jwks } = await importSigningKeys("AUDIT_SIGNING_KEYS", keys);
  const { kty, crv, x } = publicKey;
  const jwk = { kty, crv, x } as JWK;
  const getTrustedKey = await trustKeys(jwks.keys);
  return {
    jwks,
    getTrustedKey,
    thumbprint: await calculateJwkThumbprint(publicKey),
    sign: (text, typ) =>
      new CompactSign(Buffer.from(text, "utf8")).setProtectedHeader({ alg: "EdDSA", typ, kid, jwk }).sign(key),
  };
}
