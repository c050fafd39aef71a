import { showProgress, type Terminal } from "../../../shared/command-line/terminal.ts";
import type { ScanProgress } from "../log/scan.ts";

/** Time before the first progress report, so that a short scan reports nothing. */
const FIRST_REPORT_DELAY_MS = 2_000;

/**
 * Interval between progress reports in milliseconds. On a terminal, one line is redrawn. In a file, each report is a
 * new line.
 */
const REPORT_INTERVAL_MS = { terminal: 250, file: 5_000 };

/** Creates a reporter that shows the progress of a long scan on standard error. */
export function createProgressReporter(terminal: Terminal) {
  const startedAt = performance.now();
  const intervalMs = REPORT_INTERVAL_MS[terminal.redraw ? "terminal" : "file"];
  let reportedAt = startedAt + FIRST_REPORT_DELAY_MS - intervalMs;
  return ({ read: readCount, share }: ScanProgress): void => {
    const now = performance.now();
    if (now - reportedAt < intervalMs) return;
    reportedAt = now;
    const eventsPerSecond = Math.round((readCount / (now - startedAt)) * 1000);
    showProgress(
      terminal,
      `audit: ${Math.floor(share * 100)} % of the log, ${formatNumber(readCount)} events read, ${formatNumber(eventsPerSecond)} per second`,
    );
  };
}

function formatNumber(value: number): string {
  return value.toLocaleString("en-US");
}
