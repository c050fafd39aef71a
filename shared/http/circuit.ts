import { withTimeout } from "../runtime/timeout.ts";

/** While it does not work, one call in this time finds out whether it works again. Milliseconds. */
const RETRY_INTERVAL_MS = 2_000;

/** Failures are told at most this often. Milliseconds. */
const REPORT_INTERVAL_MS = 30_000;

/**
 * Guards calls of something that may be dead or slow and that the caller can do without. After a call that failed or
 * was late, further calls fail at once, but for one now and then that finds out whether it works again.
 *
 * @param options.answerTimeoutMs milliseconds
 * @param options.onFailure is told of a failure, at most every 30 s
 * @param options.clock milliseconds of a clock that never goes back
 */
export function createCircuit(options: {
  answerTimeoutMs: number;
  onFailure: (error: unknown) => void;
  clock?: () => number;
}): <T>(call: () => Promise<T>) => Promise<T> {
  const clock = options.clock ?? performance.now.bind(performance);
  let failing: { nextTry: number } | undefined;
  let toldAt = Number.NEGATIVE_INFINITY;
  return async (call) => {
    if (failing) {
      if (clock() < failing.nextTry) throw new Error("it did not work a moment ago");
      failing.nextTry = clock() + RETRY_INTERVAL_MS;
    }
    try {
      const result = await withTimeout(options.answerTimeoutMs, call());
      failing = undefined;
      return result;
    } catch (error) {
      failing = { nextTry: clock() + RETRY_INTERVAL_MS };
      if (clock() - toldAt >= REPORT_INTERVAL_MS) {
        toldAt = clock();
        options.onFailure(error);
      }
      throw error;
    }
  };
}
