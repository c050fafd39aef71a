import { setTimeout as delay } from "node:timers/promises";

export interface Backoff {
  /** Waits longer each time, up to the most, with jitter; an abort ends the wait at once. */
  next(signal: AbortSignal): Promise<void>;
  /** It works again: start from the shortest wait. */
  reset(): void;
}

/**
 * Waits between tries of something that is out of reach.
 *
 * @param bounds first and longest wait, in milliseconds
 */
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

/** Waits, in milliseconds, or until the signal aborts, whichever comes first. */
export async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(milliseconds, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
