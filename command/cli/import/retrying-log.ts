import { setMaxListeners } from "node:events";
import { type EventLog, LogUnavailable } from "../../../shared/eventstore/log.ts";
import { backoff } from "../../../shared/runtime/backoff.ts";

/** Between two tries of one operation. Milliseconds. */
const WAIT = { first: 200, most: 5_000 };

export interface RetryOptions {
  /** How long one operation is retried after its first failure. Milliseconds. */
  within: number;
  /** Ends all waits: the operation fails with what it failed with last. */
  signal: AbortSignal;
  /** Called when the log stops answering, and when it answers again. */
  onChange(answers: boolean): void;
}

/**
 * A log whose operations are retried with backoff while the log is unavailable. A retried append is safe: it has the same
 * event ids and the same expected revision, so the log appends it at most once.
 *
 * @throws {LogUnavailable} from an operation that is not answered in time
 */
export function createRetryingEventLog(log: EventLog, { within, signal, onChange }: RetryOptions): EventLog {
  // Each operation that waits listens: as many as the caller has under way.
  setMaxListeners(0, signal);
  let answers = true;
  const note = (answered: boolean) => {
    if (answers === answered) return;
    answers = answered;
    onChange(answered);
  };

  async function retried<Result>(operation: () => Promise<Result>): Promise<Result> {
    const wait = backoff(WAIT);
    let giveUpAt: number | undefined;
    for (;;) {
      try {
        const result = await operation();
        note(true);
        return result;
      } catch (error) {
        if (!(error instanceof LogUnavailable)) {
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
    last: (stream) => retried(() => log.last(stream)),
    append: (stream, expectedRevision, events) => retried(() => log.append(stream, expectedRevision, events)),
  };
}
