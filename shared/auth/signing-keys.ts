import { createPublicKey } from "node:crypto";
import { importJWK, type JSONWebKeySet, type JWK } from "jose";
import type { Config } from "../runtime/config.ts";
import { StartError } from "../runtime/run-service.ts";

type Setting = "TOKEN_SIGNING_KEYS" | "AUDIT_SIGNING_KEYS";
type SigningKey = Config<Setting>[Setting]["keys"][number];

/** A set of Ed25519 keys: the first signs. */
export interface SigningKeys {
  key: Awaited<ReturnType<typeof importJWK>>;
  kid: string;
  /** The public half of the key that signs. */
  publicKey: JWK;
  /** The public halves of all keys, retired ones included: what they signed is still about. */
  jwks: JSONWebKeySet;
}

/**
 * @param setting that the keys come from, for the error
 * @throws {StartError} where there is no key, or one is not an Ed25519 private key
 */
export async function importSigningKeys(setting: Setting, keys: readonly SigningKey[]): Promise<SigningKeys> {
  const publicKeys = keys.map((key) => publicHalf(setting, key));
  const [first, publicKey] = [keys[0], publicKeys[0]];
  if (!first || !publicKey) throw new StartError(`settings: ${setting} holds no key`);
  const key = await importJWK(first, "EdDSA").catch(() => unusable(setting, first));
  return { key, kid: first.kid, publicKey, jwks: { keys: publicKeys } };
}

function publicHalf(setting: Setting, key: SigningKey): JWK {
  try {
    const { kty, crv, x } = createPublicKey({ key: { ...key }, format: "jwk" }).export({ format: "jwk" });
    return { kty: kty ?? "", crv: crv ?? "", x: x ?? "", kid: key.kid, alg: "EdDSA", use: "sig" };
  } catch {
    return unusable(setting, key);
  }
}

function unusable(setting: Setting, { kid }: SigningKey): never {
  throw new StartError(`settings: ${setting}: key ${kid} is not an Ed25519 private key`);
}
