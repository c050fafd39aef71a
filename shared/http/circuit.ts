import { withTimeout } from "../runtime/timeout.ts";

/** Interval between test calls while the dependency is failing. Milliseconds. */
const RETRY_INTERVAL_MS = 2_000;

/** Minimum interval between reported failures. Milliseconds. */
const FAILURE_REPORT_INTERVAL_MS = 30_000;

/**
 * Creates a circuit breaker for an optional dependency. After a call fails or times out, further calls fail
 * immediately. At intervals, one call is attempted as a test. A successful test call ends this state.
 *
 * @param options.responseTimeoutMs time limit of a call
 * @param options.onFailure receives the error of a failed call, at most once every 30 s
 * @param options.clock monotonic clock in milliseconds
 */
export function createCircuit(options: {
  responseTimeoutMs: number;
  onFailure: (error: unknown) => void;
  clock?: () => number;
}): <T>(call: () => Promise<T>) => Promise<T> {
  const clock = options.clock ?? performance.now.bind(performance);
  let outage: { nextTryAt: number } | undefined;
  let reportedAt = Number.NEGATIVE_INFINITY;
  return async (call) => {
    if (outage) {
      if (clock() < outage.nextTryAt) throw new Error("not called: the previous call failed");
      outage.nextTryAt = clock() + RETRY_INTERVAL_MS;
    }
    try {
      const callResult = await withTimeout(options.responseTimeoutMs, call());
      outage = undefined;
      return callResult;
    } catch (error) {
      outage = { nextTryAt: clock() + RETRY_INTERVAL_MS };
      if (clock() - reportedAt >= FAILURE_REPORT_INTERVAL_MS) {
        reportedAt = clock();
        options.onFailure(error);
      }
      throw error;
    }
  };
}
