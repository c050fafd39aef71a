import { DomainError } from "../../../shared/domain/domain-error.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { type EventLog, LogUnavailableError } from "../../../shared/eventstore/log.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { isServerFailure } from "../../handling/server-failure.ts";
import { createCommandQueue, LinesInProgress } from "./command-queue.ts";
import {
  type CommandLine,
  createInvalidLine,
  describeRefusal,
  describeUnexpectedError,
  type InvalidLine,
  isLineId,
  type LineFailure,
  parseLine,
} from "./import-line.ts";
import type { Line } from "./import-lines.ts";
import { countFinishedLines, type ImportEnd, type ImportReport, type Tally } from "./import-report.ts";
import { createLineLog, createStreamCache, type StreamCache, UnverifiedAssumptionError } from "./line-log.ts";
import { AlreadyAppliedError } from "./log-decorators.ts";

/** Summary of the file. The whole file is read before any line is applied. */
export interface ImportSurvey {
  lineCount: number;
  /** Id of the import, derived from the content of the file. */
  importId: string;
  /** Ids of the lines by line number. Lines that are not commands have no id. */
  idByLineNumber: readonly (string | undefined)[];
  lineNumberById: ReadonlyMap<string, number>;
}

/** Result of an import, and the error if an error stopped the import. */
export interface ImportOutcome {
  tally: Tally;
  end: ImportEnd;
  error?: unknown;
}

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

interface ImportState extends Omit<ApplyOptions, "log"> {
  cache: StreamCache;
  /**
   * If true, each line's stream is assumed not to exist, which saves a read. False while the lines change existing
   * streams, for example in a repeated import.
   */
  expectsNewStreams: boolean;
  enqueue: ReturnType<typeof createCommandQueue>;
  tally: Tally;
  /**
   * Number of the first failed line that should have changed an object, by object id. Later lines that change the
   * object are not applied.
   */
  failedLineById: Map<string, number>;
  /** An error that was not caused by a line. After such an error, no further line is started. */
  fatalError: { error: unknown } | undefined;
}

/** Applies the lines of an import. Lines about the same object are applied in order, all others concurrently. */
export async function applyLines(lines: AsyncIterable<Line>, options: ApplyOptions): Promise<ImportOutcome> {
  const tally: Tally = { applied: 0, alreadyApplied: 0, invalid: 0, refused: 0 };
  const { log, ...otherOptions } = options;
  const state: ImportState = {
    ...otherOptions,
    cache: createStreamCache(log),
    expectsNewStreams: true,
    tally,
    enqueue: createCommandQueue(),
    failedLineById: new Map(),
    fatalError: undefined,
  };
  const linesInProgress = new LinesInProgress();
  try {
    await startLines(lines, state, linesInProgress);
  } catch (error) {
    state.fatalError ??= { error };
  }
  await linesInProgress.waitForEnd();
  if (state.fatalError) return { tally, end: "failed", error: state.fatalError.error };
  // An interrupted import is still complete if the last lines of the file were already in progress.
  const isInterrupted = options.interruption.aborted && countFinishedLines(tally) < options.survey.lineCount;
  return { tally, end: isInterrupted ? "interrupted" : "complete" };
}

async function startLines(
  lines: AsyncIterable<Line>,
  state: ImportState,
  linesInProgress: LinesInProgress,
): Promise<void> {
  for await (const line of lines) {
    const characterCount = "text" in line ? line.text.length : 0;
    await linesInProgress.waitForRoom(characterCount);
    if (isStopped(state)) return;
    const { number } = line;
    const parsedLine = "text" in line ? parseLine(line.text) : createInvalidLine(line.problem);
    let completion: Promise<void>;
    if ("reason" in parsedLine) {
      completion = reportInvalidLine(state, number, parsedLine);
    } else {
      const id = state.survey.idByLineNumber[number] as string;
      completion = applyQueuedLine(state, { ...parsedLine, number, id });
    }
    const stopOnError = (error: unknown) => {
      state.fatalError ??= { error };
    };
    linesInProgress.add(characterCount, completion.catch(stopOnError));
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
  const queued = state.enqueue({ changedId, ids: [changedId] });
  await queued.ready;
  try {
    if (isStopped(state)) return;
    markFailed(state, changedId, number);
    await recordFailure(state, "invalid", failure);
  } finally {
    queued.finish();
  }
}

function markFailed({ failedLineById }: ImportState, id: string, line: number): void {
  if (!failedLineById.has(id)) failedLineById.set(id, line);
}

/** Applies a line after all earlier lines about the same object. */
async function applyQueuedLine(state: ImportState, line: NumberedCommandLine): Promise<void> {
  const { number, command, preparedCommand } = line;
  const queued = state.enqueue(preparedCommand);
  await queued.ready;
  try {
    if (isStopped(state)) return;
    const failedLineNumber = state.failedLineById.get(preparedCommand.changedId);
    if (failedLineNumber !== undefined)
      throw new DomainError("follows_failure", `line ${failedLineNumber} about the same object failed`);
    countLine(state, await applyLineOnce(state, line));
  } catch (error) {
    if (isServerFailure(error)) {
      if (!(state.interruption.aborted && error instanceof LogUnavailableError)) state.fatalError ??= { error };
      return;
    }
    const failure =
      error instanceof DomainError ? describeRefusal(number, error, command) : describeUnexpectedError(number, error);
    markFailed(state, preparedCommand.changedId, number);
    await recordFailure(state, "refused", failure);
  } finally {
    queued.finish();
  }
}

/**
 * Applies a line, at first with streams from memory. Unless an append has confirmed the outcome, the line is decided
 * again with streams from the event log. An outcome with old data is therefore never reported.
 */
async function applyLineOnce(state: ImportState, line: NumberedCommandLine): Promise<"applied" | "alreadyApplied"> {
  const { cache, baseContext, survey } = state;
  const { preparedCommand, id } = line;
  const { stream } = preparedCommand;
  const isApplied = (events: readonly RecordedEvent[]) => isLineApplied(events, line, survey);
  const context = { ...baseContext, correlationId: survey.importId, causationId: id };
  const run = (options: { assumesNew: boolean; refreshesOtherStreams: boolean }) =>
    preparedCommand.run(createLineLog(cache, { stream, isApplied, ...options }), context);
  try {
    if (state.expectsNewStreams || cache.find(stream)) {
      const isConfirmed = await run({ assumesNew: true, refreshesOtherStreams: false }).then(
        ({ eventCount }) => eventCount > 0,
        ignoreUnconfirmedError,
      );
      if (isConfirmed) return "applied";
    }
    const recordedEvents = await cache.refresh(stream);
    state.expectsNewStreams = recordedEvents.length === 0;
    // This check precedes all rules, so an applied line is not refused even if a rule would refuse it today.
    if (isApplied(recordedEvents)) return "alreadyApplied";
    const { eventCount } = await run({ assumesNew: false, refreshesOtherStreams: false }).catch((error: unknown) => {
      if (error instanceof DomainError) return run({ assumesNew: false, refreshesOtherStreams: true });
      throw error;
    });
    return eventCount > 0 ? "applied" : "alreadyApplied";
  } catch (error) {
    if (error instanceof AlreadyAppliedError) return "alreadyApplied";
    throw error;
  }
}

/**
 * Returns true if the stream contains an event of the line, or of a later line from an earlier run of the same file. An
 * event does not count if an earlier line or another file has changed the object since.
 */
function isLineApplied(
  events: readonly RecordedEvent[],
  { id, number }: NumberedCommandLine,
  { importId, lineNumberById }: ImportSurvey,
): boolean {
  const lastOtherIndex = events.findLastIndex(
    ({ metadata: { $causationId } }) => isLineId($causationId) && (lineNumberById.get($causationId) ?? 0) < number,
  );
  return events
    .slice(lastOtherIndex + 1)
    .some(({ metadata }) => metadata.$causationId === id || metadata.$correlationId === importId);
}

/** Returns false for an error that another decision with streams from the event log may avoid. Throws other errors. */
function ignoreUnconfirmedError(error: unknown): false {
  if (error instanceof DomainError || error instanceof UnverifiedAssumptionError) return false;
  throw error;
}

async function recordFailure(state: ImportState, outcome: "invalid" | "refused", failure: LineFailure): Promise<void> {
  await state.report.reportFailure(failure);
  countLine(state, outcome);
}

function countLine({ tally, report }: ImportState, outcome: keyof Tally): void {
  tally[outcome] += 1;
  report.showProgress(tally);
}
