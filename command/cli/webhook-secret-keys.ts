import { type Config, readConfig } from "../../shared/runtime/config.ts";
import { localStackWebhookKeys } from "../../shared/runtime/local-stack.ts";

type Keys = Config<"WEBHOOK_SECRET_KEYS">["WEBHOOK_SECRET_KEYS"];

/**
 * The keys that encrypt webhook secrets: WEBHOOK_SECRET_KEYS, or those of the local stack that runs. A log that the
 * environment names never gets what only the local stack could decrypt.
 *
 * @throws {ConfigError} where neither says so
 */
export function webhookSecretKeys(env: NodeJS.ProcessEnv): Keys {
  const text = env.WEBHOOK_SECRET_KEYS || (env.EVENTSTORE_URL ? undefined : localStackWebhookKeys(env));
  return readConfig(["WEBHOOK_SECRET_KEYS"], { WEBHOOK_SECRET_KEYS: text }).WEBHOOK_SECRET_KEYS;
}
