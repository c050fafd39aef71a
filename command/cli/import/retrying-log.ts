import { setMaxListeners } from "node:events";
import { type EventLog, LogUnavailableError } from "../../../shared/eventstore/log.ts";
import { createBackoff } from "../../../shared/runtime/backoff.ts";

/** Delay between two attempts of one operation. Milliseconds. */
const WAIT = { firstMs: 200, maxMs: 5_000 };

export interface RetryOptions {
  /** Time limit for the retries of one operation. Milliseconds. */
  within: number;
  /** Ends all retries: the operation fails with its last error. */
  signal: AbortSignal;
  /** Called when the log becomes unavailable or available again. */
  onChange(answers: boolean): void;
}

/**
 * Creates an event log that retries its operations with backoff while the log is unavailable. Retrying an append is
 * safe: the event ids and the expected revision are the same, so the log appends at most once.
 *
 * @throws {LogUnavailableError} from an operation whose retries have timed out
 */
export function createRetryingEventLog(log: EventLog, { within, signal, onChange }: RetryOptions): EventLog {
  // Each waiting operation adds a listener, as many as the caller has in progress.
  setMaxListeners(0, signal);
  let answers = true;
  const note = (answered: boolean) => {
    if (answers === answered) return;
    answers = answered;
    onChange(answered);
  };

  async function retried<Result>(operation: () => Promise<Result>): Promise<Result> {
    const wait = createBackoff(WAIT);
    let giveUpAt: number | undefined;
    for (;;) {
      try {
        const result = await operation();
        note(true);
        return result;
      } catch (error) {
        if (!(error instanceof LogUnavailableError)) {
          note(true);
          throw error;
        }
        giveUpAt ??= performance.now() + within;
        if (signal.aborted || performance.now() >= giveUpAt) throw error;
        note(false);
        await wait.next(signal);
        if (signal.aborted) throw error;
      }
    }
  }

  return {
    read: (stream, upTo) => retried(() => log.read(stream, upTo)),
    readLast: (stream) => retried(() => log.readLast(stream)),
    append: (stream, expectedRevision, events) => retried(() => log.append(stream, expectedRevision, events)),
  };
}
