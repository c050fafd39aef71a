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

/** Line ids are held in memory: about 200 bytes each. */
const MAX_LINES = 1_000_000;

/** How long the import waits for an event log that does not answer, unless told otherwise. Seconds. */
export const DEFAULT_LOG_WAIT_S = 300;

/** What the command line said. */
export interface ImportOptions {
  dryRun?: boolean;
  logWait?: string;
  actor?: string;
  json?: boolean;
}

/**
 * Carries out the commands of a file of JSON lines. A line that is invalid or refused is reported with its number, and
 * the import goes on; only lines that change the same thing as a failed line are left. The same file again changes
 * nothing, and running an import again that was stopped, however hard, finishes it.
 *
 * @param words.dryRun does everything but the writing
 * @returns the exit code
 * @throws {InputError} for a file that cannot be read or is too long
 * @throws what stopped the import and is no line's fault, such as {LogUnavailable}, after the totals were written
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

const ENDING = "finishing the lines that were begun; press Ctrl-C again to end at once";

function retried(log: EventLog, seconds: number, signal: AbortSignal, report: ImportReport): EventLog {
  return createRetryingEventLog(log, {
    within: seconds * 1000,
    signal,
    onChange: (answers) =>
      report.note(
        answers
          ? "the event log answers again"
          : `the event log does not answer; trying again for up to ${seconds} s`,
      ),
  });
}

/** Highest wait that is taken, in seconds: a day. */
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
    if (lines > MAX_LINES) throw new InputError(`an import has at most ${MAX_LINES} lines: split the file`);
    if (!("text" in line)) continue;
    hash.update(line.text).update("\n");
    const read = readLine(line.text);
    if ("call" in read) lineOf.set(idOf(read.key), line.number);
  }
  return { lines, importId: importId(hash.digest("hex")), lineOf };
}
