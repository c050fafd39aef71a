import { CompactSign, calculateJwkThumbprint, type JSONWebKeySet, type JWK } from "jose";
import { importSigningKeys } from "../../../shared/auth/signing-keys.ts";
import type { Config } from "../../../shared/runtime/config.ts";

/** What an export's signature says that it is. */
export const SIGNATURE_TYPE = "audit-export+jws";

/** Signs exports, and publishes what they are verified with. */
export interface ExportSigner {
  /** @returns a compact JWS of the text, EdDSA, with the public key in its header */
  sign(text: string): Promise<string>;
  /** The public halves of all keys: files that retired ones signed are still about. */
  jwks: JSONWebKeySet;
  /** RFC 7638, SHA-256, of the key that signs: what is pinned. */
  thumbprint: string;
}

/** @throws {StartError} for a key that is not an Ed25519 private key */
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
