import { createHash } from "node:crypto";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { EXIT, InputError } from "./failure.ts";
import { createLineIds, importId, readLine } from "./import-line.ts";
import { type Input, linesOf, withInput } from "./import-lines.ts";
import { createProgress, type Tally } from "./import-progress.ts";
import { carryOutLines, type Survey } from "./import-run.ts";
import { operatorContext, withEventLog } from "./operator.ts";
import { rememberingLog } from "./remembering-log.ts";
import type { Terminal } from "./run-command.ts";

/** Line ids are held in memory: about 200 bytes each. */
const MOST_LINES = 1_000_000;

/**
 * Carries out the commands of a file of JSON lines. A line that is wrong or refused is told with its number, and the
 * others go on; only what changes the same thing as a failed line is left. The same file again changes nothing, and
 * one that was stopped, however hard, is finished by running it again.
 *
 * @param options.dryRun everything is done but the writing
 * @returns the exit code
 */
export async function importFile(
  name: string,
  options: { dryRun?: boolean; actor?: string; json?: boolean },
  terminal: Terminal,
): Promise<number> {
  return withInput(name, terminal.stdin, async (input) => {
    const context = operatorContext(options.actor, Date.now());
    const survey = await surveyOf(input);
    const progress = createProgress(survey.lines, terminal);
    const startedAt = performance.now();
    const run = (log: EventLog) => carryOutLines(linesOf(input), survey, log, context, progress);
    const tally = await withEventLog(terminal.env, (log) =>
      run(options.dryRun ? rememberingLog(log, "kept") : log),
    ).finally(() => progress.end());
    const seconds = (performance.now() - startedAt) / 1000;
    terminal.out(options.json ? JSON.stringify(tally) : summary(tally, seconds, options.dryRun === true));
    if (tally.refused > 0) return EXIT.refused;
    return tally.invalid > 0 ? EXIT.badInput : EXIT.done;
  });
}

async function surveyOf(input: Input): Promise<Survey> {
  const hash = createHash("sha256");
  const idOf = createLineIds();
  const lineOf = new Map<string, number>();
  let lines = 0;
  for await (const { number, text } of linesOf(input)) {
    lines += 1;
    if (lines > MOST_LINES) throw new InputError(`an import has at most ${MOST_LINES} lines: split the file`);
    hash.update(text).update("\n");
    const read = readLine(text);
    if ("call" in read) lineOf.set(idOf(read.key), number);
  }
  return { lines, importId: importId(hash.digest("hex")), lineOf };
}

function summary(tally: Tally, seconds: number, dryRun: boolean): string {
  const failed = tally.invalid + tally.refused;
  const done = dryRun ? "would be done" : "done";
  const counts = `${tally.done} ${done}, ${tally.unchanged} with nothing to change, ${failed} failed`;
  return `import: ${tally.lines} lines: ${counts} (${seconds.toFixed(1)} s)`;
}
