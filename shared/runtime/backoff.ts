import { setTimeout as delay } from "node:timers/promises";
import { onAbort } from "./abort.ts";

interface Backoff {
  /**
   * Waits. Each wait is twice as long as the previous wait, up to the maximum, with jitter. An abort ends the wait
   * immediately.
   */
  pause(signal: AbortSignal): Promise<void>;
  /** Resets the next wait to the first, shortest wait. Call it after a success. */
  reset(): void;
}

/**
 * Creates an exponential backoff for retries.
 *
 * @param bounds first and longest wait, in milliseconds
 */
export function createBackoff(bounds: { firstMs: number; maxMs: number }): Backoff {
  let waitMs = bounds.firstMs;
  return {
    async pause(signal) {
      const jitteredMs = waitMs * (0.75 + Math.random() / 2);
      waitMs = Math.min(waitMs * 2, bounds.maxMs);
      await pause(jitteredMs, signal);
    },
    reset() {
      waitMs = bounds.firstMs;
    },
  };
}

export async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(milliseconds, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** Wakes a sleeping loop. If the loop is awake, `wake` ends the loop's next sleep immediately. */
export interface Notifier {
  wake(): void;
  /** Sleeps until `wake` is called, the time has passed or the signal aborts. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
}

export function createNotifier(): Notifier {
  let isWoken = false;
  let wakeSleeper: (() => void) | undefined;
  return {
    wake() {
      isWoken = true;
      wakeSleeper?.();
    },
    async sleep(milliseconds, signal) {
      if (!isWoken && !signal.aborted) {
        await new Promise<void>((resolve) => {
          wakeSleeper = () => {
            clearTimeout(timer);
            removeListener();
            wakeSleeper = undefined;
            resolve();
          };
          const timer = setTimeout(wakeSleeper, milliseconds);
          const removeListener = onAbort(signal, wakeSleeper);
        });
      }
      isWoken = false;
    },
  };
}
