import { DomainError } from "../../../shared/domain/domain-error.ts";
import type { EventMetadata } from "../../../shared/domain/events/metadata.ts";
import { type EventLog, LogUnavailable } from "../../../shared/eventstore/log.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { AlreadyApplied, createIdempotentEventLog } from "./idempotent-log.ts";
import { type LineFailure, refusalOf } from "./import-failure.ts";
import { createLineIds, type ReadLine, readLine, type UnusableLine, unreadable } from "./import-line.ts";
import type { Line } from "./import-lines.ts";
import { createOrder } from "./import-order.ts";
import { ended, type ImportEnd, type ImportReport, type Tally } from "./import-report.ts";

/** What a file holds, seen before anything is done. */
export interface Survey {
  /** Lines that are not blank. */
  lines: number;
  /** Follows from the content. */
  importId: string;
  /** The number of each readable line, by the line's id. */
  lineOf: Map<string, number>;
}

/** How an import ended, and what stopped it if that was a failure. */
export interface ImportOutcome {
  tally: Tally;
  end: ImportEnd;
  error?: unknown;
}

/** At most this many lines are begun and not over, those that wait for their turn included. */
const MAX_IN_FLIGHT = 64;

/** A line that is a command. */
type CommandLine = Extract<ReadLine, { call: unknown }> & { number: number; id: string };

/** An import under way. */
interface Running {
  survey: Survey;
  log: EventLog;
  /** Whose import it is; each line's own id becomes the cause of its events. */
  base: CommandContext;
  report: ImportReport;
  /** Aborted when the operator ends the import: no further line begins. */
  interruption: AbortSignal;
  takeTurn: ReturnType<typeof createOrder>;
  tally: Tally;
  /** What a line failed to change, with its number: later lines about the same are left. */
  failed: Map<string, number>;
  /** A failure that is no line's fault: no further line begins. */
  broken: { error: unknown } | undefined;
}

/** Carries lines out, those that depend on each other in order and the others side by side. */
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

/** Reports a line that cannot be used. Later lines that change the same thing are left, in the order of the lines. */
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
      throw new DomainError("follows_failure", `it follows line ${cause}, which failed`);
    count(running, await carryOutOnce(running, line));
  } catch (error) {
    if (error instanceof DomainError) {
      markFailed(running, call.changes, number);
      await fail(running, "refused", refusalOf(number, error, command));
    } else if (!(interruption.aborted && error instanceof LogUnavailable)) running.broken ??= { error };
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
    if (error instanceof AlreadyApplied) return "alreadyApplied";
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
