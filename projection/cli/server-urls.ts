import { ConfigError, readConfig } from "../../shared/runtime/config.ts";
import { findLocalStackUrls, localStackUrls } from "../../shared/runtime/local-stack.ts";

const NAMES = ["EVENTSTORE_URL", "DATABASE_URL"] as const;

/** A log and the database with its read models. */
export type ServerUrls = Record<(typeof NAMES)[number], string>;

/**
 * Where log and Postgres are: EVENTSTORE_URL and DATABASE_URL, or those of the local stack that runs. One of them alone
 * is good only where it names the stack's own server: else the read models of one log would be held to another's.
 *
 * @throws {ConfigError} where they are missing, wrong, or only one is named
 */
export function serverUrls(env: NodeJS.ProcessEnv): ServerUrls {
  const named = NAMES.filter((name) => env[name]);
  if (named.length === NAMES.length) return readConfig(NAMES, env);
  const stack = named.length === 0 ? localStackUrls(env) : findLocalStackUrls(env);
  const urls = { EVENTSTORE_URL: stack?.eventstore, DATABASE_URL: stack?.postgres.projection };
  for (const name of named) {
    const other = NAMES.find((one) => one !== name);
    if (env[name] !== urls[name])
      throw new ConfigError(
        `${name} is set and ${other} is not: set both, or neither for the local stack that runs`,
      );
  }
  return readConfig(NAMES, urls);
}
