import { formatCount } from "../../../shared/command-line/format-count.ts";
import { createProgressBar } from "../../../shared/command-line/progress-bar.ts";
import { createStyle } from "../../../shared/command-line/style.ts";
import { escapeControlCharacters, type Terminal } from "../../../shared/command-line/terminal.ts";
import type { LineFailure } from "./import-line.ts";

export interface Tally {
  applied: number;
  /** Lines that an earlier run applied, and lines that change nothing. */
  alreadyApplied: number;
  invalid: number;
  refused: number;
}

/**
 * End of an import: `complete` after the last line, `interrupted` by the operator, or `failed` after an error that was
 * not caused by a line.
 */
export type ImportEnd = "complete" | "interrupted" | "failed";

/** Reports an import to the operator: each failed line, the progress, and the totals. */
export interface ImportReport {
  reportFailure(failure: LineFailure): Promise<void>;
  showProgress(tally: Tally): void;
  writeNote(text: string): void;
  writeTotals(tally: Tally, end: ImportEnd): Promise<void>;
}

/**
 * Creates the report of an import.
 *
 * @param options.json if true, failed lines and totals are printed to standard output, one JSON object per line.
 *   Otherwise failed lines are printed to standard error and totals to standard output, as text.
 */
export function createImportReport(
  lineCount: number,
  options: { json: boolean; dryRun: boolean },
  terminal: Terminal,
): ImportReport {
  const progressBar = createProgressBar("import", lineCount, terminal);
  const startedAt = performance.now();
  const { red } = createStyle(terminal);
  return {
    async reportFailure({ text, ...failure }) {
      if (options.json) await terminal.writeOutput(JSON.stringify(failure));
      // The text of the file can contain line breaks, too.
      else await terminal.writeError(`line ${failure.line}: ${escapeControlCharacters(text)}`);
    },
    showProgress: (tally) =>
      progressBar.show(
        countFinishedLines(tally),
        `${countFinishedLines(tally)} of ${lineCount} lines, ${countFailedLines(tally)} failed`,
      ),
    writeNote: (text) => void terminal.writeError(`import: ${text}`),
    async writeTotals(tally, end) {
      const seconds = (performance.now() - startedAt) / 1000;
      const left = lineCount - countFinishedLines(tally);
      if (options.json) {
        const counts = { lines: lineCount, ...tally, failed: countFailedLines(tally), left };
        const roundedSeconds = Math.round(seconds * 10) / 10;
        await terminal.writeOutput(JSON.stringify({ end, ...counts, dryRun: options.dryRun, seconds: roundedSeconds }));
        return;
      }
      if (end !== "complete")
        await terminal.writeError(
          `import: stopped after ${countFinishedLines(tally)} of ${lineCount} lines; run the same import again to continue`,
        );
      const applied = options.dryRun ? "would be applied" : "applied";
      const failed = `${countFailedLines(tally)} failed`;
      const failedText = countFailedLines(tally) > 0 ? red(failed) : failed;
      const counts = `${tally.applied} ${applied}, ${tally.alreadyApplied} already applied, ${failedText}`;
      const leftText = left > 0 ? `, ${left} left` : "";
      await terminal.writeOutput(
        `import: ${formatCount(lineCount, "line")}: ${counts}${leftText} (${seconds.toFixed(1)} s)`,
      );
    },
  };
}

/** Returns the number of lines that were applied, had already been applied, or failed. */
export function countFinishedLines(tally: Tally): number {
  return tally.applied + tally.alreadyApplied + countFailedLines(tally);
}

function countFailedLines({ invalid, refused }: Tally): number {
  return invalid + refused;
}
