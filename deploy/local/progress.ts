/** Where a start tells what it does. */
export interface Progress {
  line(text: string): void;
  /** Runs one step; says so while it takes long, and how long it took. */
  step<Result>(name: string, work: () => Promise<Result>): Promise<Result>;
}

/** A step that still runs says so this often. Milliseconds. */
const STILL_MS = 5_000;

/**
 * Progress as lines of text, safe for steps that run side by side.
 *
 * @param write takes one line
 * @param everyStep whether a step that went quickly is told too
 */
export function lineProgress(write: (line: string) => void, everyStep: boolean): Progress {
  return {
    line: write,
    async step(name, work) {
      const startedAt = Date.now();
      const seconds = () => ((Date.now() - startedAt) / 1000).toFixed(1);
      const still = setInterval(() => write(`  … ${name}: ${seconds()} s so far`), STILL_MS);
      try {
        const result = await work();
        if (everyStep) write(`  ✓ ${name} (${seconds()} s)`);
        return result;
      } finally {
        clearInterval(still);
      }
    },
  };
}
