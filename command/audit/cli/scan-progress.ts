import type { ScanProgress } from "../log/scan.ts";
import type { AuditTerminal } from "./terminal.ts";

/** A scan that ends within this time reports no progress. Milliseconds. */
const QUIET_MS = 2_000;

/** Interval between reports on a terminal, and elsewhere. Milliseconds. */
const REPORT_INTERVAL_MS = { redrawn: 250, lines: 5_000 };

/** Reports the progress of a long scan on standard error. */
export function createScanProgress(terminal: AuditTerminal): {
  show(progress: ScanProgress): void;
  end(): void;
} {
  const startedAt = performance.now();
  const every = terminal.redraw ? REPORT_INTERVAL_MS.redrawn : REPORT_INTERVAL_MS.lines;
  let reportedAt = startedAt + QUIET_MS - every;
  return {
    show({ read, share }) {
      const now = performance.now();
      if (now - reportedAt < every) return;
      reportedAt = now;
      const rate = Math.round((read / (now - startedAt)) * 1000);
      const text = `audit: ${Math.floor(share * 100)} % of the log, ${number(read)} events read, ${number(rate)} per second`;
      if (terminal.redraw) terminal.redraw(text);
      else terminal.err(text);
    },
    end: () => terminal.redraw?.(""),
  };
}

function number(value: number): string {
  return value.toLocaleString("en-US");
}
