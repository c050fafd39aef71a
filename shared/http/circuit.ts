import { within } from "../runtime/timeout.ts";

/** While it does not work, one call in this time finds out whether it works again. Milliseconds. */
const TRY_EVERY = 2_000;

/** Failures are told at most this often. Milliseconds. */
const TELL_EVERY = 30_000;

/**
 * Guards calls of something that may be dead or slow and that the caller can do without. After a call that failed or
 * was late, further calls fail at once, but for one now and then that finds out whether it works again.
 *
 * @param options.answerWithin milliseconds
 * @param options.onFailure is told of a failure, at most every 30 s
 * @param options.clock milliseconds of a clock that never goes back
 */
export function createCircuit(options: {
  answerWithin: number;
  onFailure: (error: unknown) => void;
  clock?: () => number;
}): <T>(call: () => Promise<T>) => Promise<T> {
  const clock = options.clock ?? performance.now.bind(performance);
  let failing: { nextTry: number } | undefined;
  let toldAt = Number.NEGATIVE_INFINITY;
  return async (call) => {
    if (failing) {
      if (clock() < failing.nextTry) throw new Error("it did not work a moment ago");
      failing.nextTry = clock() + TRY_EVERY;
    }
    try {
      const result = await within(options.answerWithin, call());
      failing = undefined;
      return result;
    } catch (error) {
      failing = { nextTry: clock() + TRY_EVERY };
      if (clock() - toldAt >= TELL_EVERY) {
        toldAt = clock();
        options.onFailure(error);
      }
      throw error;
    }
  };
}
