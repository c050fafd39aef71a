import type { webcrypto } from "node:crypto";
import {
  CompactSign,
  type CompactVerifyGetKey,
  calculateJwkThumbprint,
  compactVerify,
  decodeProtectedHeader,
  type JSONWebKeySet,
  type JWK,
} from "jose";
import { z } from "zod";
import { importSigningKeys } from "../../../shared/auth/signing-keys.ts";
import type { Config } from "../../../shared/runtime/config.ts";
import { parseJson } from "./json.ts";

/** Values of the `typ` header in the signatures (JWS), so that no signature can be used for another purpose. */
export const SIGNATURE_TYPES = { export: "audit-export+jws", treeHead: "audit-tree-head+jws" } as const;
type SignatureType = (typeof SIGNATURE_TYPES)[keyof typeof SIGNATURE_TYPES];

/** Signs exports and tree heads, and provides the public keys that verify the signatures. */
export interface AuditSigner {
  /** Returns a compact JWS of the text. Its header contains the type and the public key. The algorithm is EdDSA. */
  sign(text: string, type: SignatureType): Promise<string>;
  /** Returns the Ed25519 signature of bytes: 64 bytes. */
  signBytes(bytes: Uint8Array<ArrayBuffer>): Promise<Buffer>;
  /** The public key that verifies the signatures of this signer: 32 bytes. */
  publicKey: Buffer;
  /** Public keys, including retired keys, because signatures that were made with retired keys must remain verifiable. */
  jwks: JSONWebKeySet;
  /** Returns the key of a signature that was made with one of these keys. */
  getTrustedKey: GetTrustedKey;
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
    publicKey: Buffer.from(x ?? "", "base64url"),
    signBytes: async (bytes) => Buffer.from(await crypto.subtle.sign("Ed25519", key as webcrypto.CryptoKey, bytes)),
    sign: (text, typ) =>
      new CompactSign(Buffer.from(text, "utf8")).setProtectedHeader({ alg: "EdDSA", typ, kid, jwk }).sign(key),
  };
}

const publicKeySchema = z.looseObject({
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  x: z.string(),
  kid: z.string().optional(),
});
const keySetSchema = z.object({ keys: z.array(publicKeySchema).min(1) });

/** Returns the key that verifies a signature. Throws {@link UntrustedKeyError} if the key is not trusted. */
export type GetTrustedKey = CompactVerifyGetKey;

class UntrustedKeyError extends Error {
  override readonly name = "UntrustedKeyError";
}

/** Returns true for text in the form of a thumbprint: base64url of 32 bytes. */
export function isThumbprint(text: string): boolean {
  return /^[\w-]{43}$/.test(text);
}

/**
 * Reads the keys that the verifier trusts.
 *
 * @param text JSON of a public key or key set, or the thumbprint (RFC 7638, SHA-256) of a key that the export contains
 * @returns undefined for any other text
 */
export async function readTrustedKeys(text: string): Promise<GetTrustedKey | undefined> {
  if (isThumbprint(text.trim())) return trustThumbprints([text.trim()]);
  const value = parseJson(text);
  const keySetResult = keySetSchema.safeParse(value);
  const keyResult = publicKeySchema.safeParse(value);
  const keys = keySetResult.success ? keySetResult.data.keys : keyResult.success ? [keyResult.data] : undefined;
  return keys && trustKeys(keys as JWK[]);
}

async function trustKeys(keys: readonly JWK[]): Promise<GetTrustedKey> {
  return trustThumbprints(await Promise.all(keys.map((jwk) => calculateJwkThumbprint(jwk))));
}

function trustThumbprints(thumbprints: readonly string[]): GetTrustedKey {
  const trustedThumbprints = new Set(thumbprints);
  return async ({ jwk }) => {
    const parseResult = publicKeySchema.safeParse(jwk);
    if (!parseResult.success) throw new UntrustedKeyError("the signature does not contain its public key");
    const thumbprint = await calculateJwkThumbprint(parseResult.data as JWK);
    if (!trustedThumbprints.has(thumbprint))
      throw new UntrustedKeyError(`the signature was made by an untrusted key, thumbprint ${thumbprint}`);
    const { kty, crv, x } = parseResult.data;
    return { kty, crv, x, alg: "EdDSA" };
  };
}

/** Code of a fault of a signature. docs/audit-format.md describes the codes. */
export type SignatureFaultCode = "signature_invalid" | "key_untrusted" | "signature_type_wrong";

interface SignatureFault {
  fault: SignatureFaultCode;
  problem: string;
}

const PURPOSES: Record<SignatureType, string> = {
  [SIGNATURE_TYPES.export]: "an audit export",
  [SIGNATURE_TYPES.treeHead]: "a tree head",
};

/**
 * Verifies a signature (JWS).
 *
 * @returns the signed text, or the fault of the signature
 */
export async function verifySignature(
  signature: string,
  type: SignatureType,
  getTrustedKey: GetTrustedKey,
): Promise<{ text: string } | SignatureFault> {
  try {
    if (!signature.split(".").every(isBase64url)) return INVALID_SIGNATURE;
    if (decodeProtectedHeader(signature).crit !== undefined) return INVALID_SIGNATURE;
    const { payload, protectedHeader } = await compactVerify(signature, getTrustedKey, { algorithms: ["EdDSA"] });
    if (protectedHeader.typ !== type)
      return { fault: "signature_type_wrong", problem: `the signature is not for ${PURPOSES[type]}` };
    return { text: Buffer.from(payload).toString("utf8") };
  } catch (error) {
    if (error instanceof UntrustedKeyError) return { fault: "key_untrusted", problem: error.message };
    return INVALID_SIGNATURE;
  }
}

const INVALID_SIGNATURE: SignatureFault = { fault: "signature_invalid", problem: "the signature is invalid" };

/** Returns true for base64url in its only valid form. Decoders also accept padding, spaces and other unused bits. */
function isBase64url(text: string): boolean {
  return Buffer.from(text, "base64url").toString("base64url") === text;
}
