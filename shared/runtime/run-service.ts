import { ConfigError } from "./config.ts";
import { getSafeMessage } from "./logger.ts";

export interface RunningService {
  url: string;
  /**
   * Reports that the service is not ready, and waits until load balancers have noticed. The service still handles
   * requests. If the signal aborts, the wait ends.
   */
  drain?(signal: AbortSignal): Promise<void>;
  /** Refuses new work, finishes the work in progress, and closes the connections. */
  stop(): Promise<void>;
  /** Resolves with the reason if the service can no longer work. */
  failure?: Promise<StartError>;
}

/** Thrown if a service cannot start or can no longer work. The message gives the reason in one line. */
export class StartError extends Error {
  override readonly name: string = "StartError";
}

/** Thrown if a server that the process needs does not respond. The message names the server and its setting. */
export class ServerUnavailableError extends StartError {
  override readonly name = "ServerUnavailableError";
}

/** Time limit for stopping a service after it has drained. */
const STOP_TIMEOUT_MS = 8_000;

/**
 * Runs a service in this process, with the process's environment. On SIGTERM, drains and then stops the service. SIGINT
 * stops the service without a drain, or ends the drain. If the service can no longer work, stops the service and ends
 * the process with an error. A failed start and an uncaught error also end the process. The error is printed as one
 * line, followed by the stack trace if the error is unexpected.
 */
export async function runService(
  name: string,
  start: (env: NodeJS.ProcessEnv) => Promise<RunningService>,
): Promise<void> {
  const fail = (error: unknown) => {
    process.stderr.write([`${name}: ${toOneLine(error)}`, ...listFrames(error), ""].join("\n"));
    process.exit(1);
  };
  process.on("uncaughtException", fail);
  process.on("unhandledRejection", fail);
  let service: RunningService | undefined;
  const drainController = new AbortController();
  let isStopping = false;
  const stop = async (failure?: StartError) => {
    // Before the start is complete, there is nothing to finish. Without a handler, a container's first process would
    // ignore the signal.
    if (!service) process.exit(0);
    if (isStopping) return;
    isStopping = true;
    if (!failure) await service.drain?.(drainController.signal);
    setTimeout(() => fail(new Error(`did not stop within ${STOP_TIMEOUT_MS} ms`)), STOP_TIMEOUT_MS).unref();
    await service.stop();
    if (failure) fail(failure);
    process.exit(0);
  };
  process.on("SIGTERM", () => void stop().catch(fail));
  process.on("SIGINT", () => {
    drainController.abort();
    stop().catch(fail);
  });
  service = (await start(process.env).catch(fail)) ?? undefined;
  service?.failure?.then(stop).catch(fail);
}

const isExpected = (error: unknown): boolean => error instanceof ConfigError || error instanceof StartError;

/** Lists the lines of a stack trace without the message, which may contain stored data. */
function listFrames(error: unknown): string[] {
  if (!(error instanceof Error) || isExpected(error)) return [];
  return error.stack?.split("\n").filter((line) => line.startsWith("    at ")) ?? [];
}

function toOneLine(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const causeText = error.cause === undefined ? "" : ` (${toOneLine(error.cause)})`;
  return `${isExpected(error) ? "" : `${error.name}: `}${getSafeMessage(error)}${causeText}`.replaceAll("\n", " ");
}
