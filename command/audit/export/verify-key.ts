import { type CompactVerifyGetKey, calculateJwkThumbprint, type JWK } from "jose";
import { z } from "zod";

const publicKey = z.looseObject({
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  x: z.string(),
  kid: z.string().optional(),
});
const keySet = z.object({ keys: z.array(publicKey).min(1) });

/** What a signature must be by. */
export interface TrustedKeys {
  getKey: CompactVerifyGetKey;
}

/** Not one of the keys that are trusted. */
export class UntrustedKey extends Error {
  override readonly name = "UntrustedKey";
}

/** Whether a text has the form of a thumbprint: base64url of 32 bytes. */
export function isThumbprint(text: string): boolean {
  return /^[\w-]{43}$/.test(text);
}

/**
 * Reads what the verifier trusts: the JSON of a key or of a key set, or a key's thumbprint (RFC 7638, SHA-256), by which
 * the key that the file itself brings is recognised.
 *
 * @returns undefined for a text that is none of these
 */
export async function readTrustedKeys(text: string): Promise<TrustedKeys | undefined> {
  const thumbprints = isThumbprint(text.trim()) ? [text.trim()] : await thumbprintsOf(text);
  if (!thumbprints) return undefined;
  const trusted = new Set(thumbprints);
  return {
    async getKey({ jwk }) {
      const brought = publicKey.safeParse(jwk);
      if (!brought.success) throw new UntrustedKey("the signature does not bring its key");
      const thumbprint = await calculateJwkThumbprint(brought.data as JWK);
      if (!trusted.has(thumbprint)) throw new UntrustedKey(`it is signed by another key, ${thumbprint}`);
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
