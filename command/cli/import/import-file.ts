import { createHash } from "node:crypto";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { EXIT, InputError } from "../framework/failure.ts";
import { operatorContext, withEventLog } from "../framework/operator.ts";
import type { Terminal } from "../framework/run-command.ts";
import { createCachingEventLog } from "./caching-log.ts";
import { createLineIds, importId, readLine } from "./import-line.ts";
import { type Input, linesOf, withInput } from "./import-lines.ts";
import { createImportReport, type ImportReport } from "./import-report.ts";
import { carryOutLines, type ImportOutcome, type Survey } from "./import-run.ts";
import { createRetryingEventLog } from "./retrying-log.ts";

/** Limits the memory for line ids, about 200 bytes each. */
const MAX_LINES = 1_000_000;

/** Default time to wait for an event log that does not answer, in seconds. */
export const DEFAULT_LOG_WAIT_S = 300;

/** Options of `import` on the command line. */
export interface ImportOptions {
  dryRun?: boolean;
  logWait?: string;
  actor?: string;
  json?: boolean;
}

/**
 * Applies the commands of a file of JSON lines. A line that is invalid or refused is reported with its number, and
 * the import continues. Lines that change the same object as a failed line are not applied. Importing the same file
 * again changes nothing. Running a stopped or killed import again finishes it.
 *
 * @param words.dryRun checks every line without writing
 * @returns the exit code
 * @throws {InputError} if the file cannot be read or has too many lines
 * @throws {LogUnavailableError} or any other error that stopped the import, after the totals are printed
 */
export async function importFile(name: string, words: ImportOptions, terminal: Terminal): Promise<number> {
  const how = { json: words.json === true, dryRun: words.dryRun === true };
  const seconds = secondsOf(words.logWait);
  return withInput(name, terminal.stdin, async (input) => {
    const base = operatorContext(words.actor, Date.now());
    const survey = await surveyOf(input);
    const report = createImportReport(survey.lines, how, terminal);
    const interruption = terminal.interruption();
    interruption.addEventListener("abort", () => report.note(ENDING), { once: true });
    const { tally, end, error } = await withEventLog(terminal.env, (log) => {
      const target = how.dryRun ? createCachingEventLog(log, "kept") : log;
      const patient = retried(target, seconds, interruption, report);
      return carryOutLines(linesOf(input), { survey, log: patient, base, report, interruption });
    });
    await report.totals(tally, end);
    if (end === "failed") throw error;
    return exitCodeOf({ tally, end });
  });
}

const ENDING = "finishing the lines in progress; press Ctrl-C again to stop immediately";

function retried(log: EventLog, seconds: number, signal: AbortSignal, report: ImportReport): EventLog {
  return createRetryingEventLog(log, {
    within: seconds * 1000,
    signal,
    onChange: (answers) =>
      report.note(
        answers
          ? "the event log is available again"
          : `the event log does not answer; retrying for up to ${seconds} s`,
      ),
  });
}

/** Longest wait that is accepted, in seconds: one day. */
const MAX_LOG_WAIT_S = 86_400;

function secondsOf(text = String(DEFAULT_LOG_WAIT_S)): number {
  const seconds = Number(text);
  if (/^\d+$/.test(text) && seconds <= MAX_LOG_WAIT_S) return seconds;
  throw new InputError(`--log-wait must be a whole number of seconds from 0 to ${MAX_LOG_WAIT_S}`);
}

function exitCodeOf({ tally, end }: ImportOutcome): number {
  if (end === "interrupted") return EXIT.interrupted;
  if (tally.refused > 0) return EXIT.refused;
  return tally.invalid > 0 ? EXIT.badInput : EXIT.done;
}

async function surveyOf(input: Input): Promise<Survey> {
  const hash = createHash("sha256");
  const idOf = createLineIds();
  const lineOf = new Map<string, number>();
  let lines = 0;
  for await (const line of linesOf(input)) {
    lines += 1;
    if (lines > MAX_LINES)
      throw new InputError(`the file has more than ${MAX_LINES} lines; split it into smaller files`);
    if (!("text" in line)) continue;
    hash.update(line.text).update("\n");
    const read = readLine(line.text);
    if ("call" in read) lineOf.set(idOf(read.key), line.number);
  }
  return { lines, importId: importId(hash.digest("hex")), lineOf };
}
