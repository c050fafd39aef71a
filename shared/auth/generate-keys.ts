import { generateKeyPairSync, randomBytes } from "node:crypto";
import type { Config, Settings } from "../runtime/config.ts";

export type KeySetting = Extract<keyof Settings, `${string}_KEYS`>;

/**
 * Generates a key, and returns the value of a setting with this key.
 *
 * @param former keys of the setting. The former keys stay before the new key, and the key in use does not change.
 */
export function generateKeys(setting: KeySetting, former?: Config<KeySetting>[KeySetting]): string {
  const purpose = setting.toLowerCase().replace(/(_signing|_secret)?_keys$/, "");
  const id = `${purpose.replace("_", "-")}-${randomBytes(4).toString("hex")}`;
  if (setting.endsWith("_SIGNING_KEYS")) {
    const key = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
    const keys = [...Object.values(former?.keys ?? {}), { ...key, kid: id, use: "sig", alg: "EdDSA" }];
    return JSON.stringify({ keys });
  }
  const current = former && "current" in former ? former.current : id;
  return JSON.stringify({ current, keys: { ...former?.keys, [id]: randomBytes(32).toString("base64") } });
}
