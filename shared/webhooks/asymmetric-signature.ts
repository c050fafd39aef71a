import { createPrivateKey, sign } from "node:crypto";
import { promisify } from "node:util";
import type { JSONWebKeySet, JWK } from "jose";
import { importSigningKeys, type SigningKey } from "../auth/signing-keys.ts";

/** Creates the asymmetric signature of a text, in the form of Standard Webhooks: `v1a,<base64>`. */
export type SignAsymmetrically = (text: string) => Promise<string>;

export interface WebhookKeySet {
  /** JWKs with the additional member `whpk`, the same key in the form of Standard Webhooks. */
  keys: (JWK & { whpk: string })[];
}

export const WEBHOOK_KEYS_PATH = "/.well-known/webhook-keys.json";

const PUBLIC_KEY_PREFIX = "whpk_";

const signInThreadPool = promisify(sign);

/**
 * Creates a function that signs with the first key. The signature is computed in another thread.
 *
 * @throws {StartError} if there is no key, or a key is not an Ed25519 private key
 */
export async function createAsymmetricSigner(keys: readonly SigningKey[]): Promise<SignAsymmetrically> {
  await importSigningKeys("WEBHOOK_SIGNING_KEYS", keys);
  const privateKey = createPrivateKey({ key: { ...keys[0] }, format: "jwk" });
  return async (text) => `v1a,${(await signInThreadPool(null, Buffer.from(text), privateKey)).toString("base64")}`;
}

/**
 * Returns the public halves of all keys.
 *
 * @param keys private keys; undefined if the setting is not set
 * @throws {StartError} if a key is not an Ed25519 private key
 */
export async function exportWebhookKeys(keys: readonly SigningKey[] | undefined): Promise<WebhookKeySet> {
  if (!keys) return { keys: [] };
  const { jwks }: { jwks: JSONWebKeySet } = await importSigningKeys("WEBHOOK_SIGNING_KEYS", keys);
  return { keys: jwks.keys.map((jwk) => ({ ...jwk, whpk: toStandardWebhooksKey(jwk) })) };
}

function toStandardWebhooksKey({ x = "" }: JWK): string {
  return `${PUBLIC_KEY_PREFIX}${Buffer.from(x, "base64url").toString("base64")}`;
}
