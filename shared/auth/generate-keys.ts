import { randomBytes } from "node:crypto";
import { exportJWK, generateKeyPair } from "jose";
import type { Config, Settings } from "../runtime/config.ts";

export type KeySetting = Extract<keyof Settings, `${string}_KEYS`>;

/**
 * Generates a key. Returns the new value of the setting, which contains this key.
 *
 * @param former current value of the setting. Its keys stay before the new key, so that the key in use does not change
 */
export async function generateKeys(setting: KeySetting, former?: Config<KeySetting>[KeySetting]): Promise<string> {
  const purpose = setting.toLowerCase().replace(/(_signing|_secret)?_keys$/, "");
  const id = `${purpose.replace("_", "-")}-${randomBytes(4).toString("hex")}`;
  if (setting.endsWith("_SIGNING_KEYS")) {
    // The JWK export of a key of generateKeyPairSync can hang forever. It locks the key, and a garbage collection
    // during the export waits for the same lock.
    const key = await exportJWK((await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true })).privateKey);
    const keys = [...Object.values(former?.keys ?? {}), { ...key, kid: id, use: "sig", alg: "EdDSA" }];
    return JSON.stringify({ keys });
  }
  const current = former && "current" in former ? former.current : id;
  return JSON.stringify({ current, keys: { ...former?.keys, [id]: randomBytes(32).toString("base64") } });
}
