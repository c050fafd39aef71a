import { createHash } from "node:crypto";
import { z } from "zod";
import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { EXIT_CODE, InputError } from "../../../shared/command-line/failure.ts";
import { actorOption, requireOperator } from "../../../shared/command-line/operator.ts";
import { option } from "../../../shared/command-line/option.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { logWaitOption } from "../options.ts";
import { createCachingEventLog } from "./caching-log.ts";
import { IMPORT_HELP } from "./import-help.ts";
import { deriveImportId } from "./import-line.ts";
import { type ImportInput, readLines, withInput } from "./import-lines.ts";
import { createImportReport, type ImportReport } from "./import-report.ts";
import { applyLines, type ImportOutcome, type ImportSurvey } from "./import-run.ts";
import { createRetryingEventLog } from "./retrying-log.ts";

/** Maximum number of lines of a file. The maximum limits the memory for the line ids, about 200 bytes per line. */
const MAX_LINES = 1_000_000;

/**
 * Applies the commands of a file of JSON lines. A line that is invalid or refused is reported with its line number, and
 * the import continues. Lines that change the same object as a failed line are not applied. A second import of the same
 * file changes nothing. To finish a stopped or killed import, import the same file again.
 */
export const importCommand = defineCommand({
  name: "import",
  summary: "Applies the commands of a file, one JSON object per line. Importing the same file again changes nothing.",
  options: {
    file: option.argument(z.string(), "path of the file, or - for standard input"),
    dryRun: option.flag("check every line against the event log without writing"),
    logWait: logWaitOption,
    actor: actorOption,
    json: option.flag("print each failed line and the totals to standard output, one JSON object per line"),
  },
  example: "customers.ndjson --dry-run",
  details: IMPORT_HELP,
  run: ({ file, dryRun, logWait: waitSeconds, actor, json }, terminal) =>
    withInput(file, terminal.stdin, async (input) => {
      const baseContext = createOperatorContext(requireOperator(terminal.env, actor), Date.now());
      const survey = await surveyLines(input);
      const report = createImportReport(survey.lineCount, { json, dryRun }, terminal);
      const interruption = terminal.catchInterruption();
      interruption.addEventListener("abort", () => report.writeNote(INTERRUPTED_NOTE), { once: true });
      const { tally, end, error } = await withEventLog(terminal.env, (log) => {
        const targetLog = dryRun ? createCachingEventLog(log, "kept") : log;
        const retryingLog = createReportingLog(targetLog, waitSeconds, interruption, report);
        return applyLines(readLines(input), { survey, log: retryingLog, baseContext, report, interruption });
      });
      await report.writeTotals(tally, end);
      if (end === "failed") throw error;
      return toExitCode({ tally, end });
    }),
});

const INTERRUPTED_NOTE = "finishing the lines in progress; press Ctrl-C again to stop immediately";

/**
 * Creates an event log that retries its operations, and reports when the log becomes unavailable or available again.
 */
function createReportingLog(log: EventLog, waitSeconds: number, signal: AbortSignal, report: ImportReport): EventLog {
  return createRetryingEventLog(log, {
    timeoutMs: waitSeconds * 1000,
    signal,
    onAvailabilityChange: (isAvailable) =>
      report.writeNote(
        isAvailable
          ? "the event log is available again"
          : `the event log does not answer; retrying for up to ${waitSeconds} s`,
      ),
  });
}

function toExitCode({ tally, end }: ImportOutcome): number {
  if (end === "interrupted") return EXIT_CODE.interrupted;
  if (tally.refused > 0) return EXIT_CODE.refused;
  return tally.invalid > 0 ? EXIT_CODE.badInput : EXIT_CODE.done;
}

async function surveyLines(input: ImportInput): Promise<ImportSurvey> {
  const hash = createHash("sha256");
  let lineCount = 0;
  for await (const line of readLines(input)) {
    lineCount += 1;
    if (lineCount > MAX_LINES)
      throw new InputError(`the file has more than ${MAX_LINES} lines; split it into smaller files`);
    if ("text" in line) hash.update(`${line.text}\n`);
  }
  return { lineCount, importId: deriveImportId(hash.digest("hex")) };
}
