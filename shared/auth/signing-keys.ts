import { createPublicKey } from "node:crypto";
import { importJWK, type JSONWebKeySet, type JWK } from "jose";
import type { Config } from "../runtime/config.ts";
import { StartError } from "../runtime/run-service.ts";

type Setting = "TOKEN_SIGNING_KEYS" | "AUDIT_SIGNING_KEYS" | "WEBHOOK_SIGNING_KEYS";

export type SigningKey = NonNullable<Config<Setting>[Setting]>["keys"][number];

interface SigningKeys {
  key: Awaited<ReturnType<typeof importJWK>>;
  kid: string;
  publicKey: JWK;
  /** Public halves of all keys. Retired keys are included, so that their signatures remain verifiable. */
  jwks: JSONWebKeySet;
}

/**
 * Imports a set of signing keys from a setting.
 *
 * @throws {StartError} if there is no key, or a key is not an Ed25519 private key
 */
export async function importSigningKeys(settingName: Setting, keys: readonly SigningKey[]): Promise<SigningKeys> {
  const publicKeys = keys.map((key) => toPublicJwk(settingName, key));
  const [firstKey, publicKey] = [keys[0], publicKeys[0]];
  if (!firstKey || !publicKey) throw new StartError(`settings: ${settingName} contains no key`);
  const key = await importJWK(firstKey, "EdDSA").catch(() => refuseKey(settingName, firstKey));
  return { key, kid: firstKey.kid, publicKey, jwks: { keys: publicKeys } };
}

function toPublicJwk(settingName: Setting, key: SigningKey): JWK {
  try {
    const { kty, crv, x } = createPublicKey({ key: { ...key }, format: "jwk" }).export({ format: "jwk" });
    return { kty: kty ?? "", crv: crv ?? "", x: x ?? "", kid: key.kid, alg: "EdDSA", use: "sig" };
  } catch {
    return refuseKey(settingName, key);
  }
}

function refuseKey(settingName: Setting, { kid }: SigningKey): never {
  throw new StartError(`settings: ${settingName}: key ${kid} is not an Ed25519 private key`);
}
