import { DomainError } from "../../../shared/domain/domain-error.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { type EventLog, LogUnavailableError } from "../../../shared/eventstore/log.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { isServerFailure } from "../../handling/server-failure.ts";
import { createDependencies } from "../staff-command.ts";
import {
  type CommandLine,
  createInvalidLine,
  describeFailure,
  type InvalidLine,
  isLineId,
  type LineFailure,
  parseLine,
} from "./import-line.ts";
import type { Line } from "./import-lines.ts";
import { countFinishedLines, type ImportEnd, type ImportReport, type Tally } from "./import-report.ts";
import { AlreadyAppliedError, createLineLog, createStreamCache, type StreamCache } from "./line-log.ts";

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

interface ApplyOptions {
  survey: ImportSurvey;
  log: EventLog;
  /** Context that all commands share. The events of a line have the line's id as their causation id. */
  baseContext: CommandContext;
  report: ImportReport;
  /** Aborts when the operator interrupts the import. After that, no further line is started. */
  interruption: AbortSignal;
}

interface ImportRun extends ApplyOptions {
  cache: StreamCache;
  /**
   * If true, a line's stream is assumed not to exist, which saves a read. False while the lines change existing streams,
   * for example in a repeated import.
   */
  expectsNewStreams: boolean;
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
  const { log, interruption, survey } = options;
  const tally: Tally = { applied: 0, alreadyApplied: 0, invalid: 0, refused: 0 };
  const run: ImportRun = {
    ...options,
    cache: createStreamCache(log),
    expectsNewStreams: true,
    tally,
    failedLineById: new Map(),
    fatalError: undefined,
  };
  const linesInProgress = new LinesInProgress();
  try {
    for await (const line of lines) {
      if (isStopped(run)) break;
      const parsedLine = "text" in line ? parseLine(line.text) : createInvalidLine(line.problem);
      const length = "text" in line ? line.text.length : 0;
      await linesInProgress.start({ ...parsedLine, length }, () => handleLine(run, line.number, parsedLine));
    }
  } catch (error) {
    run.fatalError ??= { error };
  }
  await linesInProgress.waitForEnd();
  if (run.fatalError) return { tally, end: "failed", error: run.fatalError.error };
  // An interrupted import is still complete if the last lines of the file were already in progress.
  const isInterrupted = interruption.aborted && countFinishedLines(tally) < survey.lineCount;
  return { tally, end: isInterrupted ? "interrupted" : "complete" };
}

/** Maximum number of lines in progress, including lines that wait for an earlier line. */
const MAX_LINES = 256;

/**
 * Maximum total length of the lines in progress, in characters. A longer line is applied without others. The limit
 * bounds the memory, because a line can be as long as 1 MiB.
 */
const MAX_CHARACTERS = 8 * 1024 * 1024;

interface LineInProgress {
  /** Id of the object that the line changes. */
  changedId: string | undefined;
  /** Ids of all objects to which the line refers. */
  ids: ReadonlySet<string>;
  length: number;
}

/** Lines that have started, and have not ended. */
export class LinesInProgress {
  readonly #ends = new Map<LineInProgress, Promise<void>>();
  /** Lines that refer to an object, by the object's id. */
  readonly #linesById = new Map<string, Set<LineInProgress>>();
  #characterCount = 0;
  #resume = () => {};

  /**
   * Waits for room, and starts a line. The line runs after all earlier lines that change an object to which the line
   * refers, or that refer to the object that the line changes.
   *
   * @param run must not reject
   */
  async start(line: LineInProgress, run: () => Promise<void>): Promise<void> {
    const isFull = () => this.#ends.size >= MAX_LINES || this.#characterCount + line.length > MAX_CHARACTERS;
    while (this.#ends.size > 0 && isFull())
      await new Promise<void>((resolve) => {
        this.#resume = resolve;
      });
    const earlierEnds: (Promise<void> | undefined)[] = [];
    for (const id of line.ids) {
      const lines = this.#linesById.get(id) ?? new Set();
      for (const earlier of lines)
        if (id === line.changedId || id === earlier.changedId) earlierEnds.push(this.#ends.get(earlier));
      this.#linesById.set(id, lines.add(line));
    }
    this.#characterCount += line.length;
    const end = Promise.all(earlierEnds)
      .then(run)
      .then(() => this.#end(line));
    this.#ends.set(line, end);
  }

  #end(line: LineInProgress): void {
    for (const id of line.ids) {
      const lines = this.#linesById.get(id);
      lines?.delete(line);
      if (lines?.size === 0) this.#linesById.delete(id);
    }
    this.#ends.delete(line);
    this.#characterCount -= line.length;
    this.#resume();
  }

  async waitForEnd(): Promise<void> {
    await Promise.all(this.#ends.values());
  }
}

function isStopped({ fatalError, interruption }: ImportRun): boolean {
  return fatalError !== undefined || interruption.aborted;
}

/** Applies or refuses a line, unless the import has stopped. */
async function handleLine(run: ImportRun, number: number, line: CommandLine | InvalidLine): Promise<void> {
  const { failedLineById, interruption, report, tally } = run;
  const { changedId } = line;
  const fail = async (outcome: "invalid" | "refused", failure: LineFailure) => {
    if (changedId !== undefined && !failedLineById.has(changedId)) failedLineById.set(changedId, number);
    await report.reportFailure(failure);
    return outcome;
  };
  const handle = async (): Promise<keyof Tally> => {
    if ("reason" in line) {
      const { problems, reason: text } = line;
      return fail("invalid", { line: number, code: "invalid", problems, text });
    }
    try {
      const failedLine = failedLineById.get(line.changedId);
      if (failedLine !== undefined)
        throw new DomainError("follows_failure", `line ${failedLine} about the same object failed`);
      return await applyLine(run, number, line);
    } catch (error) {
      if (isServerFailure(error)) throw error;
      return fail("refused", describeFailure(number, error, line.command));
    }
  };
  if (isStopped(run)) return;
  try {
    tally[await handle()] += 1;
    report.showProgress(tally);
  } catch (error) {
    if (!(interruption.aborted && error instanceof LogUnavailableError)) run.fatalError ??= { error };
  }
}

/**
 * Applies a line, at first with streams from memory. Unless an append has confirmed the outcome, the line is decided
 * again with streams from the event log. An outcome with old data is therefore never reported.
 */
async function applyLine(run: ImportRun, number: number, line: CommandLine): Promise<"applied" | "alreadyApplied"> {
  const { cache, baseContext, survey } = run;
  const { command, values, stream } = line;
  const id = survey.idByLineNumber[number] as string;
  const isKnown = cache.has(stream);
  const checkOwn = (events: readonly RecordedEvent[]) => {
    if (!isKnown) run.expectsNewStreams = events.length === 0;
    if (isLineApplied(events, id, number, survey)) throw new AlreadyAppliedError();
  };
  const changesSomething = async (isFresh: boolean) => {
    const context: CommandContext = {
      ...baseContext,
      correlationId: survey.importId,
      causationId: id,
      overbooks: true,
      isExpectedNew: run.expectsNewStreams && !isKnown && !isFresh,
    };
    const lineLog = createLineLog(cache, stream, checkOwn, isFresh);
    return (await command.run(createDependencies(lineLog, {}), values, context)).events.length > 0;
  };
  try {
    // These checks precede all rules, so an applied line is not refused even if a rule would refuse it today.
    if (!run.expectsNewStreams) checkOwn(await cache.read(stream));
    if (await changesSomething(false).catch(ignoreRefusal)) return "applied";
    checkOwn(await cache.read(stream, true));
    return (await changesSomething(true)) ? "applied" : "alreadyApplied";
  } catch (error) {
    if (error instanceof AlreadyAppliedError) return "alreadyApplied";
    throw error;
  }
}

/** Returns false for a refusal, because the streams in memory may be out of date. Throws other errors. */
function ignoreRefusal(error: unknown): false {
  if (error instanceof DomainError) return false;
  throw error;
}

/**
 * Returns true if the stream contains an event of the line, or of a later line from an earlier run of the same file. An
 * event does not count if an earlier line or another file has changed the object since.
 */
function isLineApplied(
  events: readonly RecordedEvent[],
  id: string,
  number: number,
  { importId, lineNumberById }: ImportSurvey,
): boolean {
  const lastOtherIndex = events.findLastIndex(
    ({ metadata: { $causationId, $correlationId } }) =>
      isLineId($causationId) && isLineId($correlationId) && (lineNumberById.get($causationId) ?? 0) < number,
  );
  return events
    .slice(lastOtherIndex + 1)
    .some(({ metadata }) => metadata.$causationId === id || metadata.$correlationId === importId);
}
