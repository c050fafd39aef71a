import { readConfig } from "../../../shared/runtime/config.ts";
import { localStackUrls } from "../../../shared/runtime/local-stack.ts";

/**
 * Where the event log is: EVENTSTORE_URL, or that of the local stack that runs.
 *
 * @throws {ConfigError} where neither says so
 */
export function eventLogUrl(env: NodeJS.ProcessEnv): string {
  const url = env.EVENTSTORE_URL || localStackUrls(env).eventstore;
  return readConfig(["EVENTSTORE_URL"], { EVENTSTORE_URL: url }).EVENTSTORE_URL;
}
