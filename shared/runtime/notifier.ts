import { onAbort } from "./abort.ts";

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
