import { type CompactVerifyGetKey, calculateJwkThumbprint, type JWK } from "jose";
import { z } from "zod";
import { parseJson } from "./json.ts";

const publicKey = z.looseObject({
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  x: z.string(),
  kid: z.string().optional(),
});
const keySet = z.object({ keys: z.array(publicKey).min(1) });

/** Returns the key that verifies a signature. Throws {@link UntrustedKeyError} if the key is not trusted. */
export type GetTrustedKey = CompactVerifyGetKey;

/** The key that signed the export is not trusted. */
export class UntrustedKeyError extends Error {
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
  const thumbprints = isThumbprint(text.trim()) ? [text.trim()] : await computeThumbprints(text);
  if (!thumbprints) return undefined;
  const trustedThumbprints = new Set(thumbprints);
  return async ({ jwk }) => {
    const parsedJwk = publicKey.safeParse(jwk);
    if (!parsedJwk.success) throw new UntrustedKeyError("the signature does not contain its public key");
    const thumbprint = await calculateJwkThumbprint(parsedJwk.data as JWK);
    if (!trustedThumbprints.has(thumbprint))
      throw new UntrustedKeyError(`the signature was made by an untrusted key, thumbprint ${thumbprint}`);
    const { kty, crv, x } = parsedJwk.data;
    return { kty, crv, x, alg: "EdDSA" };
  };
}

async function computeThumbprints(text: string): Promise<string[] | undefined> {
  const value = parseJson(text);
  const parsedKeySet = keySet.safeParse(value);
  const parsedKey = publicKey.safeParse(value);
  const keys = parsedKeySet.success ? parsedKeySet.data.keys : parsedKey.success ? [parsedKey.data] : undefined;
  return keys && Promise.all(keys.map((jwk) => calculateJwkThumbprint(jwk as JWK)));
}
