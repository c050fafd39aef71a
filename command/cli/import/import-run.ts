import { DomainError } from "../../../shared/domain/domain-error.ts";
import type { EventMetadata } from "../../../shared/domain/events/metadata.ts";
import { type EventLog, LogUnavailableError } from "../../../shared/eventstore/log.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { AlreadyAppliedError, createIdempotentEventLog } from "./idempotent-log.ts";
import { describeRefusal, type LineFailure } from "./import-failure.ts";
import { type CommandLine, createInvalidLine, createLineIds, type InvalidLine, parseLine } from "./import-line.ts";
import type { Line } from "./import-lines.ts";
import { createImportOrder } from "./import-order.ts";
import { countFinished, type ImportEnd, type ImportReport, type Tally } from "./import-report.ts";

/** Summary of the file. The whole file is read before any line is applied. */
export interface ImportSurvey {
  /** Number of lines that are not blank. */
  lines: number;
  /** Id of the import, derived from the content of the file. */
  importId: string;
  /** Line number of each valid line, by the line's id. */
  lineNumberById: Map<string, number>;
}

/** Result of an import, and the error if an error stopped the import. */
export interface ImportOutcome {
  tally: Tally;
  end: ImportEnd;
  error?: unknown;
}

/** Maximum number of lines in progress, including lines that wait for an earlier line. */
const MAX_LINES_IN_PROGRESS = 64;

/** A valid line, with its line number and id. */
type NumberedCommandLine = CommandLine & { number: number; id: string };

interface ApplyOptions {
  survey: ImportSurvey;
  log: EventLog;
  /** Context of all commands of the import. The events of a line have the line's id as their causation id. */
  baseContext: CommandContext;
  report: ImportReport;
  /** Aborts when the operator interrupts the import. After that, no further line is started. */
  interruption: AbortSignal;
}

/** An import in progress. */
interface ImportState extends ApplyOptions {
  takeTurn: ReturnType<typeof createImportOrder>;
  tally: Tally;
  /**
   * Number of the first failed line that should have changed an object, by object id. Later lines that change the
   * object are not applied.
   */
  failedIds: Map<string, number>;
  /** An error that was not caused by a line. After such an error, no further line is started. */
  fatalError: { error: unknown } | undefined;
}

/** Applies the lines of an import. Lines about the same object are applied in order, all others concurrently. */
export async function applyLines(lines: AsyncIterable<Line>, options: ApplyOptions): Promise<ImportOutcome> {
  const tally: Tally = { applied: 0, alreadyApplied: 0, invalid: 0, refused: 0 };
  const takeTurn = createImportOrder();
  const state: ImportState = { ...options, tally, takeTurn, failedIds: new Map(), fatalError: undefined };
  const inProgress = new Set<Promise<void>>();
  try {
    await startLines(lines, state, inProgress);
  } catch (error) {
    state.fatalError ??= { error };
  }
  await Promise.all(inProgress);
  if (state.fatalError) return { tally, end: "failed", error: state.fatalError.error };
  // An interrupted import is still complete if the last lines of the file were already in progress.
  const isInterrupted = options.interruption.aborted && countFinished(tally) < options.survey.lines;
  return { tally, end: isInterrupted ? "interrupted" : "complete" };
}

async function startLines(
  lines: AsyncIterable<Line>,
  state: ImportState,
  inProgress: Set<Promise<void>>,
): Promise<void> {
  const createId = createLineIds();
  for await (const line of lines) {
    if (isStopped(state)) return;
    const { number } = line;
    const parsed = "text" in line ? parseLine(line.text) : createInvalidLine(line.problem);
    const started =
      "reason" in parsed
        ? reportInvalidLine(state, number, parsed)
        : applyInTurn(state, { ...parsed, number, id: createId(parsed.contentKey) });
    const work = started.finally(() => inProgress.delete(work));
    inProgress.add(work);
    if (inProgress.size >= MAX_LINES_IN_PROGRESS) await Promise.race(inProgress);
  }
}

function isStopped({ fatalError, interruption }: ImportState): boolean {
  return fatalError !== undefined || interruption.aborted;
}

/**
 * Reports an invalid line. If the line names the object to change, the report waits until all earlier lines about the
 * object have ended. Later lines that change the object are not applied.
 */
async function reportInvalidLine(state: ImportState, number: number, line: InvalidLine): Promise<void> {
  const { reason, problems, changedId } = line;
  const failure = { line: number, code: "invalid", problems, text: reason };
  if (changedId === undefined) return recordFailure(state, "invalid", failure);
  const turn = state.takeTurn({ changedId, ids: [changedId] });
  await turn.ready;
  try {
    if (isStopped(state)) return;
    markFailed(state, changedId, number);
    await recordFailure(state, "invalid", failure);
  } finally {
    turn.end();
  }
}

function markFailed({ failedIds }: ImportState, id: string, line: number): void {
  if (!failedIds.has(id)) failedIds.set(id, line);
}

/** Applies a line after all earlier lines about the same object. */
async function applyInTurn(state: ImportState, line: NumberedCommandLine): Promise<void> {
  const { number, command, prepared } = line;
  const turn = state.takeTurn(prepared);
  await turn.ready;
  try {
    if (isStopped(state)) return;
    const failedLine = state.failedIds.get(prepared.changedId);
    if (failedLine !== undefined)
      throw new DomainError("follows_failure", `line ${failedLine} about the same object failed`);
    countLine(state, await applyOnce(state, line));
  } catch (error) {
    if (error instanceof DomainError) {
      markFailed(state, prepared.changedId, number);
      await recordFailure(state, "refused", describeRefusal(number, error, command));
    } else if (!(state.interruption.aborted && error instanceof LogUnavailableError)) state.fatalError ??= { error };
  } finally {
    turn.end();
  }
}

async function applyOnce(
  { survey, log, baseContext }: ImportState,
  { number, prepared, id }: NumberedCommandLine,
): Promise<"applied" | "alreadyApplied"> {
  const { importId, lineNumberById } = survey;
  const isCausedByLaterCommand = ({ $correlationId, $causationId }: EventMetadata) =>
    $correlationId === importId && (lineNumberById.get($causationId) ?? 0) > number;
  const command = { stream: prepared.stream, causationId: id, isCausedByLaterCommand };
  const context = { ...baseContext, correlationId: importId, causationId: id };
  try {
    const { events } = await prepared.run(await createIdempotentEventLog(log, command), context);
    return events > 0 ? "applied" : "alreadyApplied";
  } catch (error) {
    if (error instanceof AlreadyAppliedError) return "alreadyApplied";
    throw error;
  }
}

async function recordFailure(state: ImportState, result: "invalid" | "refused", failure: LineFailure): Promise<void> {
  await state.report.reportFailure(failure);
  countLine(state, result);
}

function countLine({ tally, report }: ImportState, result: keyof Tally): void {
  tally[result] += 1;
  report.showProgress(tally);
}
