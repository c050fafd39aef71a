import { createHash } from "node:crypto";
import path from "node:path";
import { z } from "zod";
import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { EXIT_CODE, InputError } from "../../../shared/command-line/failure.ts";
import { actorOption, requireOperator } from "../../../shared/command-line/operator.ts";
import { option } from "../../../shared/command-line/option.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { createLogWaitOption } from "../options.ts";
import { createRetryingEventLog } from "../retry.ts";
import { createLineIdGenerator, deriveImportId } from "./import-line.ts";
import { type Line, readLines, withInput } from "./import-lines.ts";
import { createImportReport } from "./import-report.ts";
import { applyLines, type ImportSurvey } from "./import-run.ts";
import { createDryRunLog } from "./line-log.ts";

/** Maximum number of lines in a file. Each line needs 100 bytes of memory. A dry run also keeps the line's events. */
const MAX_LINES = 1_000_000;

/** Path of an example file, which the build copies, too. */
const EXAMPLE_FILE = path.join(import.meta.dirname, "examples", "move-in.ndjson");

const IMPORT_HELP = `Each line contains a command and its fields. Every id is required:
  {"command": "customer register", "customerId": "5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002", "clinicId": "0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001", "fullName": "Ada Example"}

To migrate a clinic, import its past appointments with their final status, and its future appointments. Partners are not
notified. "requestedAt", "statusAt", "customerId" and "resourceIds" are optional:
  {"command": "appointment import", "appointmentId": "2d9b7e31-61a0-4c88-9d35-3c1f8a7e0007", "clinicId": "0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001", "branchId": "7c2f9d14-0d7e-4c07-9a6f-1b8e4f5a0005", "animalId": "9c1d6c1e-5b60-4a7b-8a38-6f2f6a1e0003", "scheduledAt": "2024-03-01T09:00:00+01:00", "status": "completed"}
A complete example is in this file:
  ${EXAMPLE_FILE}

The file must be UTF-8, with at most 1,000,000 lines of up to 1 MiB each. The import reports each
failed line and continues. Later lines that change the same object are not applied. If the event log is unavailable, the
import waits and retries. Ctrl-C stops the import after the lines in progress. To finish a stopped import, run it again.

With --json, each failed line is printed when it fails, so line numbers may be out of order. "field" is a JSONPath:
  {"line": 7, "code": "invalid", "problems": [{"field": "$.fullName", "reason": "is missing"}]}
"code" is "invalid" for an invalid line, the code of the rule that refused the command, or "unexpected_error". The last
line contains the totals:
  {"end": "complete", "lines": 9, "applied": 8, "alreadyApplied": 0, "invalid": 1, "refused": 0, "failed": 1, "left": 0, "dryRun": false, "seconds": 0.2}
"end" is complete, interrupted or failed.

Exit codes: 0 all lines applied, 2 some lines are invalid or the file cannot be read, 3 some lines were refused,
4 a server is unavailable, 130 interrupted, 1 any other error.`;

/**
 * Applies a file with one JSON command per line. If a line is invalid or refused, the import reports the line number
 * and continues. Later lines that change the same object as a failed line are not applied. Importing the same file
 * again changes nothing, or continues an import that was stopped or killed.
 */
export const importCommand = defineCommand({
  name: "import",
  summary: "Applies the commands of a file, one JSON object per line. Importing the same file again changes nothing.",
  options: {
    file: option.argument(z.string(), "path of the file, or - for standard input"),
    dryRun: option.flag("check every line against the event log without writing"),
    logWait: createLogWaitOption(300),
    actor: actorOption,
    json: option.flag("print each failed line and the totals to standard output, one JSON object per line"),
  },
  example: "customers.ndjson --dry-run",
  details: IMPORT_HELP,
  run: ({ file, dryRun, logWait: waitSeconds, actor, json }, terminal) =>
    withInput(file, terminal.stdin, async (input) => {
      const baseContext = createOperatorContext(requireOperator(terminal.env, actor), Date.now());
      const survey = await surveyLines(readLines(input));
      const report = createImportReport(survey.lineCount, { json, dryRun }, terminal);
      const interruption = terminal.catchInterruption();
      interruption.addEventListener("abort", () => report.writeNote(INTERRUPTED_NOTE), { once: true });
      const { tally, end, error } = await withEventLog(terminal.env, (eventLog) => {
        const { writeNote } = report;
        const retryingLog = createRetryingEventLog(eventLog, { waitSeconds, signal: interruption, writeNote });
        const log = dryRun ? createDryRunLog(retryingLog) : retryingLog;
        return applyLines(readLines(input), { survey, log, baseContext, report, interruption });
      });
      await report.writeTotals(tally, end);
      if (end === "failed") throw error;
      if (end === "interrupted") return EXIT_CODE.interrupted;
      if (tally.refused > 0) return EXIT_CODE.refused;
      return tally.invalid > 0 ? EXIT_CODE.badInput : EXIT_CODE.done;
    }),
});

const INTERRUPTED_NOTE = "finishing the lines in progress; press Ctrl-C again to stop immediately";

export async function surveyLines(lines: AsyncIterable<Line>): Promise<ImportSurvey> {
  const hash = createHash("sha256");
  const createId = createLineIdGenerator();
  const idByLineNumber: string[] = [];
  const lineNumberById = new Map<string, number>();
  let lineCount = 0;
  for await (const line of lines) {
    lineCount += 1;
    if (lineCount > MAX_LINES)
      throw new InputError(`the file has more than ${MAX_LINES} lines; split it into smaller files`);
    if (!("text" in line)) continue;
    hash.update(`${line.text}\n`);
    const id = createId(line.text);
    idByLineNumber[line.number] = id;
    lineNumberById.set(id, line.number);
  }
  return { lineCount, importId: deriveImportId(hash.digest("hex")), idByLineNumber, lineNumberById };
}
