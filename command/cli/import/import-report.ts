import { formatCount } from "../../../shared/command-line/format-count.ts";
import { createProgressBar } from "../../../shared/command-line/progress-bar.ts";
import { createStyle } from "../../../shared/command-line/style.ts";
import { escapeControlCharacters, type Terminal } from "../../../shared/command-line/terminal.ts";
import type { LineFailure } from "./import-line.ts";

export interface Tally {
  applied: number;
  /** Number of lines that an earlier run applied, or that change nothing. */
  alreadyApplied: number;
  invalid: number;
  refused: number;
}

/**
 * Reason why an import ended. `complete`: all lines were handled. `interrupted`: by the operator. `failed`: an error
 * occurred that was not caused by a line.
 */
export type ImportEnd = "complete" | "interrupted" | "failed";

/** Reports an import to the operator: each failed line, the progress, and the totals. */
export type ImportReport = ReturnType<typeof createImportReport>;

/**
 * Creates the report of an import.
 *
 * @param options.json if true, failed lines and totals are printed to standard output, one JSON object per line.
 *   Otherwise failed lines are printed to standard error and totals to standard output, as text.
 */
export function createImportReport(lines: number, options: { json: boolean; dryRun: boolean }, terminal: Terminal) {
  const progressBar = createProgressBar("import", lines, terminal);
  const startedAt = performance.now();
  const { red } = createStyle(terminal);
  return {
    reportFailure: (failure: LineFailure) =>
      options.json ? terminal.writeOutput(JSON.stringify(failure)) : terminal.writeError(formatFailure(failure)),
    showProgress(tally: Tally) {
      const finished = countFinishedLines(tally);
      progressBar.show(finished, `${finished} of ${lines} lines, ${tally.invalid + tally.refused} failed`);
    },
    writeNote: (text: string) => void terminal.writeError(`import: ${text}`),
    async writeTotals(tally: Tally, end: ImportEnd) {
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
      const finished = countFinishedLines(tally);
      const [failed, left] = [tally.invalid + tally.refused, lines - finished];
      if (options.json) {
        const totals = { end, lines, ...tally, failed, left, dryRun: options.dryRun, seconds: Number(seconds) };
        return terminal.writeOutput(JSON.stringify(totals));
      }
      if (end !== "complete")
        await terminal.writeError(
          `import: stopped after ${finished} of ${lines} lines; run the same import again to continue`,
        );
      const counts = [
        `${tally.applied} ${options.dryRun ? "would be applied" : "applied"}`,
        `${tally.alreadyApplied} already applied`,
        failed > 0 ? red(`${failed} failed`) : "0 failed",
        ...(left > 0 ? [`${left} left`] : []),
      ];
      await terminal.writeOutput(`import: ${formatCount(lines, "line")}: ${counts.join(", ")} (${seconds} s)`);
    },
  };
}

function formatFailure({ line, code, problems }: LineFailure): string {
  const reasons = problems.map(({ field, reason }) => (field === "$" ? reason : `${field} ${reason}`)).join("; ");
  const text = { invalid: reasons, unexpected_error: `failed unexpectedly: ${reasons}` }[code];
  // The text of the file can contain line breaks, too.
  return `line ${line}: ${escapeControlCharacters(text ?? `refused: ${reasons} (${code})`)}`;
}

/** Returns the number of lines that are finished, whether applied or failed. */
export function countFinishedLines({ applied, alreadyApplied, invalid, refused }: Tally): number {
  return applied + alreadyApplied + invalid + refused;
}
