import { createProgressBar } from "../framework/progress-bar.ts";
import type { Terminal } from "../framework/run-command.ts";
import type { LineFailure } from "./import-failure.ts";

/** Number of lines of an import by result. */
export interface Tally {
  applied: number;
  /** An earlier run applied these lines, or they change nothing. */
  alreadyApplied: number;
  /** These lines are not valid commands. */
  invalid: number;
  /** A domain rule refused these lines. */
  refused: number;
}

/**
 * How an import ended: after its last line, interrupted by the operator, or stopped by an error that no line caused.
 */
export type ImportEnd = "complete" | "interrupted" | "failed";

/** Reports an import to the operator: each failed line, the progress, and the totals. */
export interface ImportReport {
  failure(failure: LineFailure): Promise<void>;
  progress(tally: Tally): void;
  /** Writes a line on standard error. */
  note(text: string): void;
  totals(tally: Tally, end: ImportEnd): Promise<void>;
}

/**
 * @param all number of lines to import
 * @param how.json prints failed lines and totals to standard output, one JSON object per line. Without it, failed
 *   lines go to standard error and the totals to standard output, as text.
 */
export function createImportReport(
  all: number,
  how: { json: boolean; dryRun: boolean },
  terminal: Terminal,
): ImportReport {
  const bar = createProgressBar("import", all, terminal);
  const startedAt = performance.now();
  return {
    async failure({ text, ...failure }) {
      if (how.json) await terminal.out(JSON.stringify(failure));
      else await bar.line(`line ${failure.line}: ${text}`);
    },
    progress: (tally) => bar.show(ended(tally), `${ended(tally)} of ${all} lines, ${failed(tally)} failed`),
    note: (text) => void bar.line(`import: ${text}`),
    async totals(tally, end) {
      bar.end();
      const seconds = (performance.now() - startedAt) / 1000;
      const left = all - ended(tally);
      if (how.json) {
        const counts = { lines: all, ...tally, failed: failed(tally), left };
        const took = Math.round(seconds * 10) / 10;
        await terminal.out(JSON.stringify({ end, ...counts, dryRun: how.dryRun, seconds: took }));
        return;
      }
      if (end !== "complete")
        await terminal.err(
          `import: stopped after ${ended(tally)} of ${all} lines; run the same import again to continue`,
        );
      const applied = how.dryRun ? "would be applied" : "applied";
      const counts = `${tally.applied} ${applied}, ${tally.alreadyApplied} already applied, ${failed(tally)} failed`;
      const rest = left > 0 ? `, ${left} left` : "";
      await terminal.out(`import: ${all} lines: ${counts}${rest} (${seconds.toFixed(1)} s)`);
    },
  };
}

/** Number of lines that were applied or failed. */
export function ended(tally: Tally): number {
  return tally.applied + tally.alreadyApplied + failed(tally);
}

function failed({ invalid, refused }: Tally): number {
  return invalid + refused;
}
