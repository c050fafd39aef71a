import { type Config, readConfig } from "../../../shared/runtime/config.ts";
import { localStackAuditKeys } from "../../../shared/runtime/local-stack.ts";

type Keys = Config<"AUDIT_SIGNING_KEYS">["AUDIT_SIGNING_KEYS"]["keys"];

/**
 * The keys that sign exports: AUDIT_SIGNING_KEYS, or for the log of the local stack that runs, the stack's.
 *
 * @throws {ConfigError} where neither says so
 */
export function signingKeys(env: NodeJS.ProcessEnv): Keys {
  const text = env.AUDIT_SIGNING_KEYS || localStackAuditKeys(env);
  return readConfig(["AUDIT_SIGNING_KEYS"], { AUDIT_SIGNING_KEYS: text }).AUDIT_SIGNING_KEYS.keys;
}
