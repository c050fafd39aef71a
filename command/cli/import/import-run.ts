import { DomainError } from "../../../shared/domain/domain-error.ts";
import type { EventMetadata } from "../../../shared/domain/events/metadata.ts";
import { type EventLog, LogUnavailableError } from "../../../shared/eventstore/log.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { AlreadyAppliedError, createIdempotentEventLog } from "./idempotent-log.ts";
import { type LineFailure, refusalOf } from "./import-failure.ts";
import { createLineIds, type ReadLine, readLine, type UnusableLine, unreadable } from "./import-line.ts";
import type { Line } from "./import-lines.ts";
import { createOrder } from "./import-order.ts";
import { ended, type ImportEnd, type ImportReport, type Tally } from "./import-report.ts";

/** Content of the file, read completely before any line is applied. */
export interface Survey {
  /** Number of lines that are not blank. */
  lines: number;
  /** Id of the import, derived from the content of the file. */
  importId: string;
  /** Line number of each valid line, by the line's id. */
  lineOf: Map<string, number>;
}

/** Result of an import, with the error if one stopped it. */
export interface ImportOutcome {
  tally: Tally;
  end: ImportEnd;
  error?: unknown;
}

/** Maximum number of lines in progress, including lines that wait for an earlier line. */
const MAX_IN_FLIGHT = 64;

/** A valid line with its number and id. */
type CommandLine = Extract<ReadLine, { call: unknown }> & { number: number; id: string };

/** An import in progress. */
interface Running {
  survey: Survey;
  log: EventLog;
  /** Context of all commands. Each line's id becomes the causation id of its events. */
  base: CommandContext;
  report: ImportReport;
  /** Aborts when the operator interrupts the import. No further line is started. */
  interruption: AbortSignal;
  takeTurn: ReturnType<typeof createOrder>;
  tally: Tally;
  /**
   * Ids that a failed line should have changed, with the number of that line. Later lines that change the same id are
   * not applied.
   */
  failed: Map<string, number>;
  /** An error that no line caused. No further line is started. */
  broken: { error: unknown } | undefined;
}

/** Applies lines: lines that depend on each other in order, all others concurrently. */
export async function carryOutLines(
  lines: AsyncIterable<Line>,
  given: Pick<Running, "survey" | "log" | "base" | "report" | "interruption">,
): Promise<ImportOutcome> {
  const tally: Tally = { applied: 0, alreadyApplied: 0, invalid: 0, refused: 0 };
  const order = { takeTurn: createOrder(), failed: new Map<string, number>() };
  const running: Running = { ...given, tally, ...order, broken: undefined };
  const inFlight = new Set<Promise<void>>();
  try {
    await beginLines(lines, running, inFlight);
  } catch (error) {
    running.broken ??= { error };
  }
  await Promise.all(inFlight);
  if (running.broken) return { tally, end: "failed", error: running.broken.error };
  // After an interruption, the lines in flight may have been the last ones.
  const isInterrupted = given.interruption.aborted && ended(tally) < given.survey.lines;
  return { tally, end: isInterrupted ? "interrupted" : "complete" };
}

async function beginLines(
  lines: AsyncIterable<Line>,
  running: Running,
  inFlight: Set<Promise<void>>,
): Promise<void> {
  const idOf = createLineIds();
  for await (const line of lines) {
    if (isStopped(running)) return;
    const read = "text" in line ? readLine(line.text) : unreadable(line.problem);
    const begun =
      "reason" in read
        ? failInTurn(running, line.number, read)
        : carryOutInTurn(running, { ...read, number: line.number, id: idOf(read.key) });
    const work = begun.finally(() => inFlight.delete(work));
    inFlight.add(work);
    if (inFlight.size >= MAX_IN_FLIGHT) await Promise.race(inFlight);
  }
}

function isStopped({ broken, interruption }: Running): boolean {
  return broken !== undefined || interruption.aborted;
}

/** Reports an invalid line in its turn, so that only later lines that change the same object are not applied. */
async function failInTurn(running: Running, number: number, line: UnusableLine): Promise<void> {
  const { reason, problems, changes } = line;
  const failure = { line: number, code: "invalid", problems, text: reason };
  if (changes === undefined) return fail(running, "invalid", failure);
  const turn = running.takeTurn({ changes, ids: [changes] });
  await turn.ready;
  try {
    if (isStopped(running)) return;
    markFailed(running, changes, number);
    await fail(running, "invalid", failure);
  } finally {
    turn.end();
  }
}

function markFailed({ failed }: Running, id: string, line: number): void {
  if (!failed.has(id)) failed.set(id, line);
}

async function carryOutInTurn(running: Running, line: CommandLine): Promise<void> {
  const { failed, interruption } = running;
  const { number, command, call } = line;
  const turn = running.takeTurn(call);
  await turn.ready;
  try {
    if (isStopped(running)) return;
    const cause = failed.get(call.changes);
    if (cause !== undefined)
      throw new DomainError("follows_failure", `line ${cause} about the same object failed`);
    count(running, await carryOutOnce(running, line));
  } catch (error) {
    if (error instanceof DomainError) {
      markFailed(running, call.changes, number);
      await fail(running, "refused", refusalOf(number, error, command));
    } else if (!(interruption.aborted && error instanceof LogUnavailableError)) running.broken ??= { error };
  } finally {
    turn.end();
  }
}

async function carryOutOnce(
  { survey, log, base }: Running,
  { number, call, id }: CommandLine,
): Promise<"applied" | "alreadyApplied"> {
  const { importId, lineOf } = survey;
  const isLater = ({ $correlationId, $causationId }: EventMetadata) =>
    $correlationId === importId && (lineOf.get($causationId) ?? 0) > number;
  const context = { ...base, correlationId: importId, causationId: id };
  try {
    const once = await createIdempotentEventLog(log, { stream: call.stream, causationId: id, isLater });
    const { events } = await call.outcome(once, context);
    return events > 0 ? "applied" : "alreadyApplied";
  } catch (error) {
    if (error instanceof AlreadyAppliedError) return "alreadyApplied";
    throw error;
  }
}

async function fail(running: Running, result: "invalid" | "refused", failure: LineFailure): Promise<void> {
  await running.report.failure(failure);
  count(running, result);
}

function count({ tally, report }: Running, result: keyof Tally): void {
  tally[result] += 1;
  report.progress(tally);
}
