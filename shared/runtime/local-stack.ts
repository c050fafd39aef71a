import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import { ConfigError } from "./config.ts";

const stackContent = z.object({
  urls: z.object({
    eventstore: z.string(),
    nats: z.string().optional(),
    postgres: z.object({ projection: z.string() }),
  }),
  /** Private JWK Set, as JSON text. */
  auditSigningKeys: z.string().optional(),
  /** {current, keys}, as JSON text. */
  webhookSecretKeys: z.string().optional(),
});

type Stack = z.infer<typeof stackContent>;

/** Where the servers of the local stack are. */
export type StackUrls = Stack["urls"];

/**
 * Where the servers are, as the local stack says of itself while it runs. Command lines turn to it where the
 * environment names no server.
 *
 * @throws {ConfigError} where no stack runs
 */
export function localStackUrls(env: NodeJS.ProcessEnv): StackUrls {
  return requireStack(env).urls;
}

/** The same, undefined where no stack runs. */
export function findLocalStackUrls(env: NodeJS.ProcessEnv): StackUrls | undefined {
  return readStack(env)?.urls;
}

/**
 * The keys that sign the local stack's audit exports, where the log is the stack's own: another log's exports must not
 * be signed by them.
 *
 * @returns undefined where EVENTSTORE_URL names another log, or the stack says nothing of them
 * @throws {ConfigError} where no log is named and no stack runs
 */
export function localStackAuditKeys(env: NodeJS.ProcessEnv): string | undefined {
  return stackOfLog(env)?.auditSigningKeys;
}

/**
 * The keys that encrypt the local stack's webhook secrets, where the log is the stack's own: another log must not get
 * what only the stack could decrypt.
 *
 * @returns undefined where EVENTSTORE_URL names another log, or the stack says nothing of them
 * @throws {ConfigError} where no log is named and no stack runs
 */
export function localStackWebhookKeys(env: NodeJS.ProcessEnv): string | undefined {
  return stackOfLog(env)?.webhookSecretKeys;
}

/** A log that is named can be the stack's own: `npm start` takes over what EVENTSTORE_URL names. */
function stackOfLog(env: NodeJS.ProcessEnv): Stack | undefined {
  if (!env.EVENTSTORE_URL) return requireStack(env);
  const stack = readStack(env);
  return stack?.urls.eventstore === env.EVENTSTORE_URL ? stack : undefined;
}

function requireStack(env: NodeJS.ProcessEnv): Stack {
  const file = stackFile(env);
  if (!existsSync(file)) {
    throw new ConfigError(
      "no server is named and no local stack runs: set EVENTSTORE_URL (and DATABASE_URL), or npm start",
    );
  }
  const stack = readStack(env);
  if (!stack) {
    throw new ConfigError(
      `${file} does not say where the servers are: set EVENTSTORE_URL (and DATABASE_URL)`,
    );
  }
  return stack;
}

/** Undefined where no stack runs, or what it says cannot be read. */
function readStack(env: NodeJS.ProcessEnv): Stack | undefined {
  try {
    return stackContent.parse(JSON.parse(readFileSync(stackFile(env), "utf8")));
  } catch {
    return undefined;
  }
}

/** `stack.json` in LOCAL_DIR, by default `.local`. */
function stackFile(env: NodeJS.ProcessEnv): string {
  return resolve(env.LOCAL_DIR ?? ".local", "stack.json");
}
