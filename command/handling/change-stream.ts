import { WrongExpectedRevisionError } from "../../shared/eventstore/log.ts";
import { createBackoff } from "../../shared/runtime/backoff.ts";

/** Time limit for a change, including the wait for earlier changes and the retries. */
const CHANGE_TIMEOUT_MS = 10_000;

/** First and longest retry delay. Delays have jitter, so that competing processes do not retry simultaneously. */
const RETRY_DELAYS_MS = { firstMs: 5, maxMs: 100 };

/** Promises by stream. Each resolves when the last queued change of the stream has ended. */
const lastChanges = new Map<string, Promise<unknown>>();

/**
 * Changes a stream that other processes may change at the same time. Changes of a stream in this process run one after
 * another. If another process appends first, the change is repeated: once immediately, then with delays.
 *
 * @param change loads the stream, decides, and appends; receives the number of earlier attempts
 * @throws what `change` throws
 * @throws {WrongExpectedRevisionError} if other processes keep appending first for 10 seconds
 */
export function changeStream<Result>(stream: string, change: (attempt: number) => Promise<Result>): Promise<Result> {
  const deadline = performance.now() + CHANGE_TIMEOUT_MS;
  const result = (lastChanges.get(stream) ?? Promise.resolve()).then(() => retryConflicts(change, deadline));
  const end = result.then(
    () => undefined,
    () => undefined,
  );
  lastChanges.set(stream, end);
  void end.then(() => lastChanges.get(stream) === end && lastChanges.delete(stream));
  return result;
}

async function retryConflicts<Result>(change: (attempt: number) => Promise<Result>, deadline: number): Promise<Result> {
  const backoff = createBackoff(RETRY_DELAYS_MS);
  for (let attempt = 0; performance.now() < deadline; attempt += 1) {
    try {
      return await change(attempt);
    } catch (error) {
      if (!(error instanceof WrongExpectedRevisionError)) throw error;
    }
    if (attempt > 0) await backoff.pause(new AbortController().signal);
  }
  throw new WrongExpectedRevisionError("other writers kept appending to the stream first");
}
