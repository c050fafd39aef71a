/** Time after which a read fails if the event log sends nothing. */
const SILENCE_TIMEOUT_MS = 10_000;

interface SilenceWatchdog {
  restart(): void;
  /** Stops waiting. Call it while the consumer processes an event. */
  pause(): void;
  end(): void;
}

/** Calls `onSilence` if the event log sends nothing for too long while a read waits for it. */
export function createSilenceWatchdog(onSilence: () => void): SilenceWatchdog {
  let startedAt: number | undefined = performance.now();
  const timer = setInterval(() => {
    if (startedAt !== undefined && performance.now() - startedAt > SILENCE_TIMEOUT_MS) onSilence();
  }, 1_000);
  timer.unref();
  return {
    restart() {
      startedAt = performance.now();
    },
    pause() {
      startedAt = undefined;
    },
    end: () => clearInterval(timer),
  };
}
