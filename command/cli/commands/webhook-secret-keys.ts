import { type Config, readConfig } from "../../../shared/runtime/config.ts";
import { localStackWebhookKeys } from "../../../shared/runtime/local-stack.ts";

type Keys = Config<"WEBHOOK_SECRET_KEYS">["WEBHOOK_SECRET_KEYS"];

/**
 * The keys that encrypt webhook secrets: WEBHOOK_SECRET_KEYS, or for the log of the local stack that runs, the stack's.
 *
 * @throws {ConfigError} where neither says so
 */
export function webhookSecretKeys(env: NodeJS.ProcessEnv): Keys {
  const text = env.WEBHOOK_SECRET_KEYS || localStackWebhookKeys(env);
  return readConfig(["WEBHOOK_SECRET_KEYS"], { WEBHOOK_SECRET_KEYS: text }).WEBHOOK_SECRET_KEYS;
}
