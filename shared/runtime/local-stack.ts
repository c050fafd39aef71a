import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import { ConfigError } from "./config.ts";

const stackFile = z.object({
  urls: z.object({ eventstore: z.string(), postgres: z.object({ projection: z.string() }) }),
  /** Private JWK Set, as JSON text. */
  auditSigningKeys: z.string().optional(),
  /** {current, keys}, as JSON text. */
  webhookSecretKeys: z.string().optional(),
});

/** Where the servers of the local stack are. */
export type StackUrls = z.infer<typeof stackFile>["urls"];

/**
 * Where the servers are, as the local stack says of itself while it runs. Command lines turn to it where the
 * environment names no server.
 *
 * @throws {ConfigError} where no stack runs
 */
export function localStackUrls(env: NodeJS.ProcessEnv): StackUrls {
  return readStackFile(env).urls;
}

/**
 * The keys that sign the local stack's audit exports.
 *
 * @returns undefined where the stack says nothing of them
 * @throws {ConfigError} where no stack runs
 */
export function localStackAuditKeys(env: NodeJS.ProcessEnv): string | undefined {
  return readStackFile(env).auditSigningKeys;
}

/**
 * The keys that encrypt the local stack's webhook secrets.
 *
 * @returns undefined where the stack says nothing of them
 * @throws {ConfigError} where no stack runs
 */
export function localStackWebhookKeys(env: NodeJS.ProcessEnv): string | undefined {
  return readStackFile(env).webhookSecretKeys;
}

/** `stack.json` in LOCAL_DIR, by default `.local`. */
function readStackFile(env: NodeJS.ProcessEnv): z.infer<typeof stackFile> {
  const file = resolve(env.LOCAL_DIR ?? ".local", "stack.json");
  if (!existsSync(file)) {
    throw new ConfigError(
      "no server is named and no local stack runs: set EVENTSTORE_URL (and DATABASE_URL), or npm start",
    );
  }
  try {
    return stackFile.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch {
    throw new ConfigError(
      `${file} does not say where the servers are: set EVENTSTORE_URL (and DATABASE_URL)`,
    );
  }
}
