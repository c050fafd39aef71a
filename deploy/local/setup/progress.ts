/** Reports the progress of a start. */
export interface Progress {
  /** Writes one line. */
  log(line: string): void;
  /**
   * Runs a step. If the step is slow, reports from time to time that it is still running. Can also report the duration
   * of the finished step.
   */
  runStep<Result>(name: string, run: () => Promise<Result>): Promise<Result>;
}

/**
 * Delay before the first report that a step is still running. After each report, the delay doubles up to the maximum.
 */
const FIRST_REPORT_DELAY_MS = 5_000;
const MAX_REPORT_DELAY_MS = 60_000;

/**
 * Creates a progress that reports in lines of text. Steps can run in parallel.
 *
 * @param write receives each line
 * @param shouldReportCompletion if true, each finished step is also reported with its duration
 */
export function createProgress(write: (line: string) => void, shouldReportCompletion: boolean): Progress {
  return {
    log: write,
    async runStep(name, run) {
      const startedAt = Date.now();
      const stepResult = await reportWhileRunning(name, run(), write);
      if (shouldReportCompletion) write(`  ✓ ${name} (${formatSecondsSince(startedAt)} s)`);
      return stepResult;
    },
  };
}

/**
 * Waits for a promise without a time limit. Reports at growing intervals that it is still pending.
 *
 * @param write receives each line
 */
export async function reportWhileRunning<Result>(
  name: string,
  promise: Promise<Result>,
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
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}

function formatSecondsSince(startedAt: number): string {
  return ((Date.now() - startedAt) / 1000).toFixed(1);
}
