import type { StackFile } from "./stack-file.ts";

/** The part of the stack file that command-line programs use. */
export type RunningStack = Pick<StackFile, "auditSigningKeys" | "personalDataKeys" | "webhookSecretKeys"> & {
  urls: Pick<StackFile["urls"], "eventstore" | "nats"> & { postgres: { projection: string } };
};

/**
 * Returns the settings of the running stack that a command-line program uses. The environment always takes precedence.
 *
 * The log and the database must belong together, because a program may compare the read models with the log. Therefore,
 * the stack's log and database are used only if the environment names no other log or database. The stack's keys are
 * used only with the stack's log, and its NATS server only with its database.
 */
export function buildCommandLineEnvironment(env: NodeJS.ProcessEnv, stack: RunningStack): NodeJS.ProcessEnv {
  const { eventstore: eventstoreUrl, nats: natsUrl, postgres: postgresUrls } = stack.urls;
  const usesStackUrl = (name: string, url: string) => !env[name] || env[name] === url;
  const settings: NodeJS.ProcessEnv = {};
  const setIfMissing = (name: string, value: string) => {
    if (!env[name]) settings[name] = value;
  };
  if (usesStackUrl("EVENTSTORE_URL", eventstoreUrl) && usesStackUrl("DATABASE_URL", postgresUrls.projection)) {
    setIfMissing("EVENTSTORE_URL", eventstoreUrl);
    setIfMissing("DATABASE_URL", postgresUrls.projection);
  }
  if ({ ...env, ...settings }.DATABASE_URL === postgresUrls.projection) setIfMissing("NATS_URL", natsUrl);
  if ({ ...env, ...settings }.EVENTSTORE_URL === eventstoreUrl) {
    setIfMissing("AUDIT_SIGNING_KEYS", stack.auditSigningKeys);
    setIfMissing("PERSONAL_DATA_KEYS", stack.personalDataKeys);
    setIfMissing("WEBHOOK_SECRET_KEYS", stack.webhookSecretKeys);
  }
  return settings;
}
