import { type CompactVerifyGetKey, calculateJwkThumbprint, type JWK } from "jose";
import { z } from "zod";

const publicKey = z.looseObject({
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  x: z.string(),
  kid: z.string().optional(),
});
const keySet = z.object({ keys: z.array(publicKey).min(1) });

/** Keys that the verifier trusts. */
export interface TrustedKeys {
  getKey: CompactVerifyGetKey;
}

/** The signing key is not trusted. */
export class UntrustedKeyError extends Error {
  override readonly name = "UntrustedKeyError";
}

/** Returns whether a text has the form of a thumbprint: base64url of 32 bytes. */
export function isThumbprint(text: string): boolean {
  return /^[\w-]{43}$/.test(text);
}

/**
 * Reads the trusted keys: JSON of a public key or key set, or a thumbprint (RFC 7638, SHA-256) of the key in the
 * file.
 *
 * @returns undefined for any other text
 */
export async function readTrustedKeys(text: string): Promise<TrustedKeys | undefined> {
  const thumbprints = isThumbprint(text.trim()) ? [text.trim()] : await thumbprintsOf(text);
  if (!thumbprints) return undefined;
  const trusted = new Set(thumbprints);
  return {
    async getKey({ jwk }) {
      const brought = publicKey.safeParse(jwk);
      if (!brought.success) throw new UntrustedKeyError("the signature does not contain its public key");
      const thumbprint = await calculateJwkThumbprint(brought.data as JWK);
      if (!trusted.has(thumbprint))
        throw new UntrustedKeyError(`the signature was made by an untrusted key, thumbprint ${thumbprint}`);
      const { kty, crv, x } = brought.data;
      return { kty, crv, x, alg: "EdDSA" };
    },
  };
}

async function thumbprintsOf(text: string): Promise<string[] | undefined> {
  const set = keySet.safeParse(parse(text));
  const one = publicKey.safeParse(parse(text));
  const keys = set.success ? set.data.keys : one.success ? [one.data] : undefined;
  return keys && Promise.all(keys.map((key) => calculateJwkThumbprint(key as JWK)));
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
