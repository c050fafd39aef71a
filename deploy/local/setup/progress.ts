/** Reports the progress of a start. */
export interface Progress {
  log(text: string): void;
  /** Runs one step. Reports that it is still running if it takes long, and how long it took. */
  step<Result>(name: string, work: () => Promise<Result>): Promise<Result>;
}

/** Delay of the first report that a step is still running. It doubles with each report, up to the maximum. */
const FIRST_REPORT_DELAY_MS = 5_000;
const MAX_REPORT_DELAY_MS = 60_000;

/**
 * Reports progress as lines of text. Steps may run in parallel.
 *
 * @param write takes one line
 * @param everyStep whether steps that finish quickly are reported, too
 */
export function createProgress(write: (line: string) => void, everyStep: boolean): Progress {
  return {
    log: write,
    async step(name, work) {
      const startedAt = Date.now();
      const result = await reportWhileRunning(name, work(), write);
      if (everyStep) write(`  ✓ ${name} (${formatSecondsSince(startedAt)} s)`);
      return result;
    },
  };
}

/**
 * Waits for the work without a time limit. Reports at growing intervals that it is still running.
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
      write(`  … ${name}: still running after ${formatSecondsSince(startedAt)} s`);
      reportAfter(Math.min(delayMs * 2, MAX_REPORT_DELAY_MS));
    }, delayMs);
  };
  reportAfter(FIRST_REPORT_DELAY_MS);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
}

function formatSecondsSince(startedAt: number): string {
  return ((Date.now() - startedAt) / 1000).toFixed(1);
}
