import fs from "node:fs";
import path from "node:path";
import { z } from "zod";
import { readConfig } from "../../shared/runtime/config.ts";
import { InputError } from "./failure.ts";

const stack = z.object({ urls: z.object({ eventstore: z.string() }) });

/**
 * Where the event log is: EVENTSTORE_URL, or that of the local stack that runs (`stack.json` in LOCAL_DIR, by default
 * `.local`).
 *
 * @throws {InputError} where neither says so
 */
export function eventLogUrl(env: NodeJS.ProcessEnv): string {
  const url = env.EVENTSTORE_URL || urlOfStack(path.resolve(env.LOCAL_DIR ?? ".local", "stack.json"));
  return readConfig(["EVENTSTORE_URL"], { EVENTSTORE_URL: url }).EVENTSTORE_URL;
}

function urlOfStack(file: string): string {
  if (!fs.existsSync(file))
    throw new InputError("no event log: set EVENTSTORE_URL, or start the local stack (npm start)");
  try {
    return stack.parse(JSON.parse(fs.readFileSync(file, "utf8"))).urls.eventstore;
  } catch {
    throw new InputError(`${file} does not say where the event log is: set EVENTSTORE_URL`);
  }
}
