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

/**
 * Where the NATS server is: NATS_URL, or the local stack's if the database is the stack's own.
 *
 * @param databaseUrl the database that the command works on
 * @throws {ConfigError} if it is missing or wrong
 */
export function natsUrl(env: NodeJS.ProcessEnv, databaseUrl: string): string {
  const stack = env.NATS_URL ? undefined : findLocalStackUrls(env);
  const found = stack?.postgres.projection === databaseUrl ? stack.nats : env.NATS_URL;
  return readConfig(["NATS_URL"], { NATS_URL: found || undefined }).NATS_URL;
}
