import { createPublicKey } from "node:crypto";
import { CompactSign, calculateJwkThumbprint, importJWK, type JSONWebKeySet, type JWK } from "jose";
import type { Config } from "../../../shared/runtime/config.ts";
import { StartError } from "../../../shared/runtime/run-service.ts";

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
  const publicKeys = keys.map(publicHalf);
  const [first, jwk] = [keys[0], publicKeys[0]];
  if (!first || !jwk) throw new StartError("settings: AUDIT_SIGNING_KEYS holds no key");
  const key = await importJWK(first, "EdDSA").catch(() => unusable(first.kid));
  const { kty, crv, x } = jwk;
  const header = { alg: "EdDSA", typ: SIGNATURE_TYPE, kid: first.kid, jwk: { kty, crv, x } as JWK };
  return {
    jwks: { keys: publicKeys },
    thumbprint: await calculateJwkThumbprint(jwk),
    sign: (text) => new CompactSign(Buffer.from(text, "utf8")).setProtectedHeader(header).sign(key),
  };
}

function publicHalf(key: { kid: string } & JWK): JWK {
  try {
    const { kty, crv, x } = createPublicKey({ key: { ...key }, format: "jwk" }).export({ format: "jwk" });
    return { kty: kty ?? "", crv: crv ?? "", x: x ?? "", kid: key.kid, alg: "EdDSA", use: "sig" };
  } catch {
    return unusable(key.kid);
  }
}

function unusable(kid: string): never {
  throw new StartError(`settings: AUDIT_SIGNING_KEYS: key ${kid} is not an Ed25519 private key`);
}
