import { CompactSign, calculateJwkThumbprint, type JSONWebKeySet, type JWK } from "jose";
import { importSigningKeys } from "../../../shared/auth/signing-keys.ts";
import type { Config } from "../../../shared/runtime/config.ts";

/** Type header of an export's signature. */
export const SIGNATURE_TYPE = "audit-export+jws";

/** Signs exports and provides the keys that verify them. */
export interface ExportSigner {
  /** @returns a compact JWS of the text, EdDSA, with the public key in its header */
  sign(text: string): Promise<string>;
  /** Public keys, including retired keys, whose exports must remain verifiable. */
  jwks: JSONWebKeySet;
  /** Thumbprint (RFC 7638, SHA-256) of the signing key. */
  thumbprint: string;
}

/** @throws {StartError} if a key is not an Ed25519 private key */
export async function createExportSigner(
  keys: Config<"AUDIT_SIGNING_KEYS">["AUDIT_SIGNING_KEYS"]["keys"],
): Promise<ExportSigner> {
  const { key, kid, publicKey, jwks } = await importSigningKeys("AUDIT_SIGNING_KEYS", keys);
  const { kty, crv, x } = publicKey;
  const header = { alg: "EdDSA", typ: SIGNATURE_TYPE, kid, jwk: { kty, crv, x } as JWK };
  return {
    jwks,
    thumbprint: await calculateJwkThumbprint(publicKey),
    sign: (text) => new CompactSign(Buffer.from(text, "utf8")).setProtectedHeader(header).sign(key),
  };
}
