/** Creates and verifies asymmetric webhook signatures without the service's code. */
import { createPublicKey, verify } from "node:crypto";
import { exportJWK, generateKeyPair, type JWK } from "jose";
import type { SigningKey } from "../../shared/auth/signing-keys.ts";

/** Creates an Ed25519 key as a private JWK. */
export async function createSigningKey(kid: string): Promise<SigningKey> {
  const { privateKey } = await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true });
  return { ...(await exportJWK(privateKey)), kid } as SigningKey;
}

/** Verifies a signature of the form `v1a,<base64>` with the Web Crypto API. */
export async function verifyWithJwk({ kty, crv, x }: JWK, text: string, signature: string): Promise<boolean> {
  const jwk = { kty: kty!, crv: crv!, x: x! };
  const key = await crypto.subtle.importKey("jwk", jwk, { name: "Ed25519" }, false, ["verify"]);
  return crypto.subtle.verify("Ed25519", key, decodeSignature(signature), Buffer.from(text));
}

/** DER prefix of an Ed25519 public key of 32 bytes (RFC 8410). */
const DER_PREFIX = Buffer.from("302a300506032b6570032100", "hex");

/** Verifies a signature (`v1a,<base64>`) with OpenSSL. @param whpk public key in the format of Standard Webhooks */
export function verifyWithWhpk({ whpk }: { whpk: string }, text: string, signature: string): boolean {
  const der = Buffer.concat([DER_PREFIX, Buffer.from(whpk.slice("whpk_".length), "base64")]);
  return verify(
    null,
    Buffer.from(text),
    createPublicKey({ key: der, format: "der", type: "spki" }),
    decodeSignature(signature),
  );
}

function decodeSignature(signature: string): Buffer<ArrayBuffer> {
  if (!signature.startsWith("v1a,")) throw new Error(`${signature} is not an asymmetric signature.`);
  return Buffer.from(signature.slice("v1a,".length), "base64");
}
