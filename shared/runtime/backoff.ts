import { setTimeout as delay } from "node:timers/promises";

export interface Backoff {
  /**
   * Waits. Each wait is twice as long as the previous wait, up to the maximum, with jitter. An abort ends the wait
   * immediately.
   */
  next(signal: AbortSignal): Promise<void>;
  /** Resets the next wait to the first, shortest wait. Call it after a success. */
  reset(): void;
}

/** Creates an exponential backoff for retries. @param bounds first and longest wait, in milliseconds */
export function backoff(bounds: { first: number; most: number }): Backoff {
  let wait = bounds.first;
  return {
    async next(signal) {
      const jittered = wait * (0.75 + Math.random() / 2);
      wait = Math.min(wait * 2, bounds.most);
      await pause(jittered, signal);
    },
    reset() {
      wait = bounds.first;
    },
  };
}

/** Waits for a number of milliseconds, or until the signal aborts. */
export async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(milliseconds, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
