import { type CompactVerifyGetKey, calculateJwkThumbprint, type JWK } from "jose";
import { z } from "zod";
import { parseJson } from "./json.ts";

const publicKeySchema = z.looseObject({
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  x: z.string(),
  kid: z.string().optional(),
});
const keySetSchema = z.object({ keys: z.array(publicKeySchema).min(1) });

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
  if (isThumbprint(text.trim())) return trustThumbprints([text.trim()]);
  const value = parseJson(text);
  const keySetResult = keySetSchema.safeParse(value);
  const keyResult = publicKeySchema.safeParse(value);
  const keys = keySetResult.success ? keySetResult.data.keys : keyResult.success ? [keyResult.data] : undefined;
  return keys && trustKeys(keys as JWK[]);
}

/** Returns the function that trusts the given public keys. */
export async function trustKeys(keys: readonly JWK[]): Promise<GetTrustedKey> {
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
