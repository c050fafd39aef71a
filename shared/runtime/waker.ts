/** Wakes a loop that sleeps; a call while it is awake is remembered. */
export interface Waker {
  wake(): void;
  /** Sleeps until woken, until so many milliseconds have passed, or until the signal aborts. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
}

export function createWaker(): Waker {
  let woken = false;
  let end: (() => void) | undefined;
  return {
    wake() {
      woken = true;
      end?.();
    },
    async sleep(milliseconds, signal) {
      if (!woken && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(finish, milliseconds);
          signal.addEventListener("abort", finish, { once: true });
          end = finish;
          function finish(): void {
            clearTimeout(timer);
            signal.removeEventListener("abort", finish);
            end = undefined;
            resolve();
          }
        });
      }
      woken = false;
    },
  };
}
