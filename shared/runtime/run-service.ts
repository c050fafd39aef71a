import { ConfigError } from "./config.ts";
import { safeMessage } from "./logger.ts";

/** A service that runs, and how to stop it. */
export interface RunningService {
  /** Where it listens. */
  url: string;
  /** Stops taking work, finishes what it has, closes its connections. */
  stop(): Promise<void>;
}

/** The service cannot start, for a reason that one line can say. */
export class StartError extends Error {
  override readonly name = "StartError";
}

/** A stop takes this long at the most. Milliseconds. */
const STOP_TIMEOUT_MS = 8_000;

/**
 * Runs a service as the whole process: starts it with the process's environment, and stops it on SIGTERM or SIGINT.
 * A start that fails ends the process with one readable line; so does an error that nobody caught.
 */
export async function runService(
  name: string,
  start: (env: NodeJS.ProcessEnv) => Promise<RunningService>,
): Promise<void> {
  const fail = (error: unknown) => {
    process.stderr.write(`${name}: ${oneLine(error)}\n`);
    process.exit(1);
  };
  process.on("uncaughtException", fail);
  process.on("unhandledRejection", fail);
  const service = await start(process.env).catch(fail);
  if (!service) return;
  let stopping = false;
  const stop = () => {
    if (stopping) return;
    stopping = true;
    setTimeout(() => fail(new Error(`did not stop within ${STOP_TIMEOUT_MS} ms`)), STOP_TIMEOUT_MS).unref();
    service.stop().then(() => process.exit(0), fail);
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
}

function oneLine(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const known = error instanceof ConfigError || error instanceof StartError;
  const cause = error.cause === undefined ? "" : ` (${oneLine(error.cause)})`;
  return `${known ? "" : `${error.name}: `}${safeMessage(error)}${cause}`.replaceAll("\n", " ");
}
