export interface Progress {
  log(line: string): void;
  /** If the step is slow, reports at growing intervals that it is still running. */
  runStep<Result>(name: string, run: () => Promise<Result>): Promise<Result>;
}

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
      const getSeconds = () => ((Date.now() - startedAt) / 1000).toFixed(1);
      let timer: NodeJS.Timeout | undefined;
      const reportAfter = (delayMs: number) => {
        timer = setTimeout(() => {
          write(`  … ${name}: still running after ${getSeconds()} s`);
          reportAfter(Math.min(delayMs * 2, MAX_REPORT_DELAY_MS));
        }, delayMs);
      };
      reportAfter(FIRST_REPORT_DELAY_MS);
      try {
        const result = await run();
        if (shouldReportCompletion) write(`  ✓ ${name} (${getSeconds()} s)`);
        return result;
      } finally {
        clearTimeout(timer);
      }
    },
  };
}
