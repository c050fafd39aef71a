import { setMaxListeners } from "node:events";
import { type EventLog, LogUnavailableError } from "../../shared/eventstore/log.ts";
import { isLogAvailable } from "../../shared/eventstore/stream-failure.ts";
import { KeyStoreUnavailableError } from "../../shared/personal-data/data-keys.ts";
import { createBackoff } from "../../shared/runtime/backoff.ts";

/** First and longest delay between two attempts of one operation. */
const RETRY_DELAYS_MS = { firstMs: 200, maxMs: 5_000 };

/**
 * Maximum number of attempts if an operation fails although the log answers requests about other streams. They take
 * about 25 s. The limit is low because an import can contain many such lines, and their waits add up.
 */
const MAX_STUCK_ATTEMPTS = 10;

export interface RetryOptions {
  /** Seconds from the first failure of an operation until its retries end. */
  waitSeconds: number;
  /** When this signal aborts, all retries end, and each operation fails with its last error. */
  signal?: AbortSignal | undefined;
  writeNote(text: string): void;
  /** Name of the event log in the texts for `writeNote`; default: `the event log`. */
  logName?: string;
  /**
   * Returns true if the log answers requests about other streams. If omitted, each failure of the log counts as an
   * outage.
   */
  isLogAvailable?(): Promise<boolean>;
}

/** Thrown if all retries of an operation have failed, although the event log answers requests about other streams. */
export class StuckOperationError extends Error {
  override readonly name = "StuckOperationError";
}

/** Runs an operation, and repeats it with backoff while the event log or the store of data keys is unavailable. */
type Retry = <Result>(operation: () => Promise<Result>) => Promise<Result>;

/**
 * Creates a function that retries the operations of one event log. Writes a note when a server becomes unavailable or
 * available again.
 *
 * @returns the function. When its retries end, it throws the last error of the operation, or {StuckOperationError}
 */
export function createRetry(options: RetryOptions): Retry {
  const { waitSeconds, signal = new AbortController().signal, writeNote, logName = "the event log" } = options;
  // Each retrying operation adds a listener, and Node.js would warn about more than 10.
  setMaxListeners(0, signal);
  let missingServer: string | undefined;
  const report = (server: string | undefined) => {
    if (server !== undefined && missingServer === undefined)
      writeNote(`${server} does not answer; retrying for up to ${waitSeconds} s`);
    if (server === undefined && missingServer !== undefined) writeNote(`${missingServer} is available again`);
    missingServer = server;
  };

  return async (operation) => {
    const backoff = createBackoff(RETRY_DELAYS_MS);
    let deadline: number | undefined;
    let stuckAttempts = 0;
    for (;;) {
      try {
        const result = await operation();
        report(undefined);
        return result;
      } catch (error) {
        const isLogError = error instanceof LogUnavailableError;
        const isStuck = isLogError && !signal.aborted && ((await options.isLogAvailable?.()) ?? false);
        const isServerMissing = !isStuck && (isLogError || error instanceof KeyStoreUnavailableError);
        if (signal.aborted || !(isStuck || isServerMissing)) throw error;
        stuckAttempts = isStuck ? stuckAttempts + 1 : 0;
        deadline ??= performance.now() + waitSeconds * 1000;
        const isLate = performance.now() >= deadline;
        if (isStuck && (isLate || stuckAttempts === MAX_STUCK_ATTEMPTS))
          throw new StuckOperationError("the event log fails only for this object", { cause: error });
        if (isLate) throw error;
        report(isServerMissing ? (isLogError ? logName : "Postgres") : undefined);
        await backoff.pause(signal);
        if (signal.aborted) throw error;
      }
    }
  };
}

/**
 * Creates an event log that retries its operations as {@link createRetry} does. Retrying an append is safe: each attempt
 * has the same event ids and expected revision, so the log appends the events at most once.
 */
export function createRetryingEventLog(log: EventLog, options: RetryOptions): EventLog {
  const retry = createRetry({ ...options, isLogAvailable: () => isLogAvailable(log) });
  return {
    read: (stream, lastRevision) => retry(() => log.read(stream, lastRevision)),
    readLast: (stream, maxRevision) => retry(() => log.readLast(stream, maxRevision)),
    append: (stream, expectedRevision, events) => retry(() => log.append(stream, expectedRevision, events)),
  };
}
