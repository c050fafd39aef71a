import type { Config } from "../runtime/config.ts";
import { decrypt, encrypt } from "./aes-gcm.ts";
import { DataKeyError, type DataKeyOwner } from "./data-keys.ts";

export type MasterKeys = ReturnType<typeof createMasterKeys>;

/** Creates functions that wrap and unwrap data keys. A wrapped key can be unwrapped only with its own id and owner. */
export function createMasterKeys(config: Config<"PERSONAL_DATA_KEYS">["PERSONAL_DATA_KEYS"]) {
  const masterKeys = new Map(Object.entries(config.keys).map(([id, key]) => [id, Buffer.from(key, "base64")]));
  const currentKey = masterKeys.get(config.current) as Buffer;
  return {
    currentId: config.current,
    wrap: (id: string, owner: DataKeyOwner, key: Buffer) => ({
      masterKeyId: config.current,
      wrappedKey: encrypt(currentKey, key, describeContext(id, owner)),
    }),
    /**
     * Unwraps a data key.
     *
     * @throws {DataKeyError} if the master key is not configured or does not fit, or if the stored row was changed
     */
    unwrap(id: string, owner: DataKeyOwner, { masterKeyId, wrappedKey }: { masterKeyId: string; wrappedKey: Buffer }) {
      const masterKey = masterKeys.get(masterKeyId);
      if (!masterKey) {
        const problem = `data key ${id} is wrapped by the master key ${masterKeyId}, which is not in PERSONAL_DATA_KEYS; add this master key`;
        throw new DataKeyError(problem);
      }
      try {
        return decrypt(masterKey, wrappedKey, describeContext(id, owner));
      } catch (error) {
        const problem = `data key ${id} cannot be unwrapped: the master key ${masterKeyId} in PERSONAL_DATA_KEYS is another key, or the stored row was changed; correct the setting, or restore the row from a backup`;
        throw new DataKeyError(problem, { cause: error });
      }
    },
  };
}

function describeContext(id: string, { person, category }: DataKeyOwner): string {
  return [id, person.type, person.id, category].join("\n");
}
