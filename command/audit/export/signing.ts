import { CompactSign, calculateJwkThumbprint, type JSONWebKeySet, type JWK } from "jose";
import { importSigningKeys } from "../../../shared/auth/signing-keys.ts";
import type { Config } from "../../../shared/runtime/config.ts";
import type { Thumbprints } from "./verify-export.ts";

/** Values of the `typ` header in the signatures (JWS), so that no signature can be used for another purpose. */
export const SIGNATURE_TYPES = { export: "audit-export+jws", treeHead: "audit-tree-head+jws" } as const;
type SignatureType = (typeof SIGNATURE_TYPES)[keyof typeof SIGNATURE_TYPES];

/** Signs exports and tree heads, and provides the public keys that verify the signatures. */
export interface AuditSigner {
  /** Returns a compact JWS of the text. Its header contains the type and the public key. The algorithm is EdDSA. */
  sign(text: string, type: SignatureType): Promise<string>;
  /** Public keys, including retired keys, so that signatures of retired keys remain verifiable. */
  jwks: JSONWebKeySet;
  /** Thumbprints of the keys in `jwks`. */
  trustedKeys: Thumbprints;
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
  return {
    jwks,
    trustedKeys: new Set(await Promise.all(jwks.keys.map((key) => calculateJwkThumbprint(key)))),
    thumbprint: await calculateJwkThumbprint(publicKey),
    sign: (text, typ) =>
      new CompactSign(Buffer.from(text, "utf8")).setProtectedHeader({ alg: "EdDSA", typ, kid, jwk }).sign(key),
  };
}
