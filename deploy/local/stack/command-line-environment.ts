import type { StackFile } from "./stack-file.ts";

/** The part of the stack's description that command lines use. */
export type RunningStack = Pick<StackFile, "auditSigningKeys" | "webhookSecretKeys"> & {
  urls: Pick<StackFile["urls"], "eventstore" | "nats"> & { postgres: { projection: string } };
};

/**
 * Returns the settings that a command line takes from the running stack because the environment does not set them.
 *
 * Log and database always come from one place: otherwise a command would compare the read models of one log with
 * another log. The stack's keys are only for its own log, and its NATS server only for its own database.
 */
export function buildCommandLineEnvironment(env: NodeJS.ProcessEnv, stack: RunningStack): NodeJS.ProcessEnv {
  const { eventstore, nats, postgres } = stack.urls;
  const isOwn = (name: string, url: string) => !env[name] || env[name] === url;
  const isOwnLog = isOwn("EVENTSTORE_URL", eventstore);
  const isOwnDatabase = isOwn("DATABASE_URL", postgres.projection);
  const found: NodeJS.ProcessEnv = {};
  const fill = (name: string, value: string) => {
    if (!env[name]) found[name] = value;
  };
  if (isOwnLog && isOwnDatabase) {
    fill("EVENTSTORE_URL", eventstore);
    fill("DATABASE_URL", postgres.projection);
  }
  if ({ ...env, ...found }.DATABASE_URL === postgres.projection) fill("NATS_URL", nats);
  if ({ ...env, ...found }.EVENTSTORE_URL === eventstore) {
    fill("AUDIT_SIGNING_KEYS", stack.auditSigningKeys);
    fill("WEBHOOK_SECRET_KEYS", stack.webhookSecretKeys);
  }
  return found;
}
