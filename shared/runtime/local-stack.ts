import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import { ConfigError } from "./config.ts";

const stackFile = z.object({
  urls: z.object({ eventstore: z.string(), postgres: z.object({ projection: z.string() }) }),
});

/** Where the servers of the local stack are. */
export type StackUrls = z.infer<typeof stackFile>["urls"];

/**
 * Reads what the local stack says of itself while it runs: `stack.json` in LOCAL_DIR, by default `.local`. Command
 * lines turn to it where the environment names no server.
 *
 * @throws {ConfigError} where no stack runs
 */
export function localStackUrls(env: NodeJS.ProcessEnv): StackUrls {
  const file = resolve(env.LOCAL_DIR ?? ".local", "stack.json");
  if (!existsSync(file)) {
    throw new ConfigError(
      "no server is named and no local stack runs: set EVENTSTORE_URL (and DATABASE_URL), or npm start",
    );
  }
  try {
    return stackFile.parse(JSON.parse(readFileSync(file, "utf8"))).urls;
  } catch {
    throw new ConfigError(
      `${file} does not say where the servers are: set EVENTSTORE_URL (and DATABASE_URL)`,
    );
  }
}
