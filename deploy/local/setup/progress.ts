/** Reports what a start does. */
export interface Progress {
  line(text: string): void;
  /** Runs one step; says so while it takes long, and how long it took. */
  step<Result>(name: string, work: () => Promise<Result>): Promise<Result>;
}

/** The first report that something still runs comes after this, each further one after twice the time, up to a bound. */
const FIRST_REPORT_MS = 5_000;
const MAX_REPORT_MS = 60_000;

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
      const result = await reportWhileRunning(name, work(), write);
      if (everyStep) write(`  ✓ ${name} (${secondsSince(startedAt)} s)`);
      return result;
    },
  };
}

/**
 * Waits for the work without a bound, and reports at growing intervals that it still runs and for how long.
 *
 * @param write takes one line
 */
export async function reportWhileRunning<Result>(
  name: string,
  work: Promise<Result>,
  write: (line: string) => void,
): Promise<Result> {
  const startedAt = Date.now();
  let timer: NodeJS.Timeout | undefined;
  const reportAfter = (delayMs: number) => {
    timer = setTimeout(() => {
      write(`  … ${name}: ${secondsSince(startedAt)} s so far`);
      reportAfter(Math.min(delayMs * 2, MAX_REPORT_MS));
    }, delayMs);
  };
  reportAfter(FIRST_REPORT_MS);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
}

function secondsSince(startedAt: number): string {
  return ((Date.now() - startedAt) / 1000).toFixed(1);
}
