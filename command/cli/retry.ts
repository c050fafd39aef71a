import { setMaxListeners } from "node:events";
import { type EventLog, LogUnavailableError } from "../../shared/eventstore/log.ts";
import { isLogAvailable } from "../../shared/eventstore/stream-failure.ts";
import { KeyStoreUnavailableError } from "../../shared/personal-data/data-keys.ts";
import { createBackoff } from "../../shared/runtime/backoff.ts";

/** First and longest delay between two attempts of one operation. */
const RETRY_DELAYS_MS = { firstMs: 200, maxMs: 5_000 };

type Server = "the event log" | "Postgres";

export interface RetryOptions {
  timeoutMs: number;
  /** When this signal aborts, all retries end, and each operation fails with its last error. */
  signal: AbortSignal;
  onAvailabilityChange(isAvailable: boolean, server: Server): void;
  /** Returns true if the event log answers requests about other streams. If undefined, all streams fail together. */
  isLogAvailable?(): Promise<boolean>;
}

/** Thrown if all retries of an operation have failed, although the event log answers requests about other streams. */
export class StuckOperationError extends Error {
  override readonly name = "StuckOperationError";
}

/**
 * Share of the time limit for an operation that fails although the log answers for other streams. Many lines of an
 * import can fail in this way, and only some wait at the same time.
 */
const STUCK_SHARE = 0.1;

/** Runs an operation, and repeats it with backoff while the event log or the store of data keys is unavailable. */
type Retry = <Result>(operation: () => Promise<Result>) => Promise<Result>;

/**
 * Creates a function that retries the operations of one event log.
 *
 * @throws {LogUnavailableError | StuckOperationError} from an operation whose retries have timed out
 */
export function createRetry({ timeoutMs, signal, onAvailabilityChange, isLogAvailable }: RetryOptions): Retry {
  // Each retrying operation adds a listener, and Node.js would warn about more than 10.
  setMaxListeners(0, signal);
  let wasAvailable = true;
  let server: Server = "the event log";
  const setAvailable = (isAvailable: boolean) => {
    if (wasAvailable !== isAvailable) onAvailabilityChange(isAvailable, server);
    wasAvailable = isAvailable;
  };

  return async (operation) => {
    const backoff = createBackoff(RETRY_DELAYS_MS);
    let deadline: number | undefined;
    let stuckSince: number | undefined;
    for (;;) {
      try {
        const result = await operation();
        setAvailable(true);
        return result;
      } catch (error) {
        if (!(error instanceof LogUnavailableError || error instanceof KeyStoreUnavailableError)) {
          setAvailable(true);
          throw error;
        }
        server = error instanceof LogUnavailableError ? "the event log" : "Postgres";
        deadline ??= performance.now() + timeoutMs;
        if (signal.aborted) throw error;
        const isStuck = error instanceof LogUnavailableError && ((await isLogAvailable?.()) ?? false);
        const now = performance.now();
        stuckSince = isStuck ? (stuckSince ?? now) : undefined;
        if (stuckSince !== undefined && now >= Math.min(deadline, stuckSince + timeoutMs * STUCK_SHARE))
          throw new StuckOperationError("the event log fails only for this object", { cause: error });
        if (now >= deadline) throw error;
        setAvailable(isStuck);
        await backoff.pause(signal);
        if (signal.aborted) throw error;
      }
    }
  };
}

/**
 * Creates an event log that retries its operations with backoff while the log is unavailable, and reports when the log
 * becomes unavailable or available again. Retrying an append is safe: each attempt has the same event ids and expected
 * revision, so the log appends the events at most once.
 *
 * @throws {LogUnavailableError | StuckOperationError} from an operation whose retries have timed out
 */
export function createRetryingEventLog(
  log: EventLog,
  options: { waitSeconds: number; signal?: AbortSignal | undefined; writeNote(text: string): void },
): EventLog {
  const { waitSeconds, signal = new AbortController().signal, writeNote } = options;
  const retry = createRetry({
    timeoutMs: waitSeconds * 1000,
    signal,
    onAvailabilityChange: (isAvailable, server) =>
      writeNote(
        isAvailable ? `${server} is available again` : `${server} does not answer; retrying for up to ${waitSeconds} s`,
      ),
    isLogAvailable: () => isLogAvailable(log),
  });
  return {
    read: (stream, lastRevision) => retry(() => log.read(stream, lastRevision)),
    readLast: (stream, maxRevision) => retry(() => log.readLast(stream, maxRevision)),
    append: (stream, expectedRevision, events) => retry(() => log.append(stream, expectedRevision, events)),
  };
}
