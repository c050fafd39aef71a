import { DomainError } from "../../../shared/domain/domain-error.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { type EventLog, LogUnavailableError } from "../../../shared/eventstore/log.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { isServerFailure } from "../../handling/server-failure.ts";
import { createDependencies } from "../staff-command.ts";
import {
  type CommandLine,
  createInvalidLine,
  describeRefusal,
  type InvalidLine,
  isLineId,
  type LineFailure,
  parseLine,
} from "./import-line.ts";
import type { Line } from "./import-lines.ts";
import { countFinishedLines, type ImportEnd, type ImportReport, type Tally } from "./import-report.ts";
import { AlreadyAppliedError, createLineLog, createStreamCache } from "./line-log.ts";

/** Result of a first pass over the whole file, before any line is applied. */
export interface ImportSurvey {
  lineCount: number;
  /** Id of the import, derived from the content of the file. */
  importId: string;
  idByLineNumber: readonly string[];
  lineNumberById: ReadonlyMap<string, number>;
}

interface ApplyOptions {
  survey: ImportSurvey;
  log: EventLog;
  /** Context of all commands. The ids of the import and of each line replace its correlation and causation ids. */
  baseContext: CommandContext;
  report: ImportReport;
  /** Aborts when the operator interrupts the import. No line starts after that. */
  interruption: AbortSignal;
}

/**
 * Applies the lines of an import concurrently. Two lines keep their file order if one changes an object to which the
 * other refers.
 *
 * @returns the number of lines by outcome; and the error, if an error stopped the import
 */
export async function applyLines(
  lines: AsyncIterable<Line>,
  options: ApplyOptions,
): Promise<{ tally: Tally; end: ImportEnd; error?: unknown }> {
  const { interruption, report, survey } = options;
  const tally: Tally = { applied: 0, alreadyApplied: 0, invalid: 0, refused: 0 };
  const applyLine = createLineApplier(options);
  /**
   * Number of the first failed line that should have changed an object, by object id. Later lines that change the same
   * object are not applied.
   */
  const failedLineById = new Map<string, number>();
  /** Errors that are not caused by a line. No line starts after such an error. */
  const errors: unknown[] = [];
  const isStopped = () => errors.length > 0 || interruption.aborted;

  async function handle(number: number, line: CommandLine | InvalidLine): Promise<keyof Tally> {
    const { changedId } = line;
    const fail = async (failure: LineFailure) => {
      if (changedId !== undefined && !failedLineById.has(changedId)) failedLineById.set(changedId, number);
      await report.reportFailure(failure);
      return failure.code === "invalid" ? "invalid" : "refused";
    };
    if ("problems" in line) return fail({ line: number, code: "invalid", problems: line.problems });
    try {
      const failedLine = failedLineById.get(changedId as string);
      if (failedLine !== undefined)
        throw new DomainError("follows_failure", `line ${failedLine} about the same object failed`);
      return await applyLine(number, line);
    } catch (error) {
      if (isServerFailure(error)) throw error;
      return fail(describeRefusal(number, error, line.command));
    }
  }

  async function run(number: number, line: CommandLine | InvalidLine): Promise<void> {
    if (isStopped()) return;
    try {
      tally[await handle(number, line)] += 1;
      report.showProgress(tally);
    } catch (error) {
      if (!(interruption.aborted && error instanceof LogUnavailableError)) errors.push(error);
    }
  }

  const queue = createLineQueue();
  try {
    for await (const line of lines) {
      if (isStopped()) break;
      const parsedLine = "text" in line ? parseLine(line.text) : createInvalidLine(line.problem);
      const length = "text" in line ? line.text.length : 0;
      await queue.start({ ...parsedLine, length }, () => run(line.number, parsedLine));
    }
  } catch (error) {
    errors.push(error);
  }
  await queue.waitForEnd();
  if (errors.length > 0) return { tally, end: "failed", error: errors[0] };
  // An interrupted import is still complete if the last lines of the file were already in progress.
  const isInterrupted = interruption.aborted && countFinishedLines(tally) < survey.lineCount;
  return { tally, end: isInterrupted ? "interrupted" : "complete" };
}

/** Maximum number of lines in progress, including lines that wait for an earlier line. */
const MAX_LINES = 256;

/** Maximum total length of the lines in progress, in characters. It limits memory, because a line can have 1 MiB. */
const MAX_CHARACTERS = 8 * 1024 * 1024;

interface QueuedLine {
  /** Id of the object that the line changes. */
  changedId: string | undefined;
  /** Ids of all objects to which the line refers. */
  ids: ReadonlySet<string>;
  length: number;
}

/**
 * Creates a queue that runs lines concurrently. Two lines keep their order if one changes an object to which the other
 * refers.
 */
export function createLineQueue() {
  /** Promises by object id, for the ends of all earlier lines that change the object, or that refer to it (`uses`). */
  const endsById = new Map<string, { changes: Promise<unknown> | undefined; uses: Promise<unknown> }>();
  const running = new Set<Promise<void>>();
  let characterCount = 0;
  let resume = () => {};
  const isFull = (length: number) => running.size >= MAX_LINES || characterCount + length > MAX_CHARACTERS;
  return {
    /**
     * Waits until the queue has room, and then adds a line. The line runs after all earlier lines with which it
     * conflicts. Two lines conflict if one changes an object to which the other refers.
     *
     * @param run must not reject
     */
    async start({ changedId, ids, length }: QueuedLine, run: () => Promise<void>): Promise<void> {
      while (running.size > 0 && isFull(length))
        await new Promise<void>((resolve) => {
          resume = resolve;
        });
      const earlierEnds = [...ids].map((id) => endsById.get(id)?.[id === changedId ? "uses" : "changes"]);
      const end = Promise.all(earlierEnds).then(run);
      for (const id of ids) {
        const earlier = endsById.get(id);
        // A result would keep those of all earlier lines in memory.
        const uses = Promise.all([earlier?.uses, end]).then(() => undefined);
        const ends = { changes: id === changedId ? uses : earlier?.changes, uses };
        endsById.set(id, ends);
        void uses.then(() => endsById.get(id) === ends && endsById.delete(id));
      }
      running.add(end);
      characterCount += length;
      void end.then(() => {
        running.delete(end);
        characterCount -= length;
        resume();
      });
    },
    waitForEnd: () => Promise.all(running),
  };
}

/**
 * Creates the function that applies a line. It first decides with streams from the cache. If the command is refused or
 * changes nothing, the cache may be outdated, so it decides again with streams from the event log.
 */
function createLineApplier({ log, baseContext, survey }: ApplyOptions) {
  const cache = createStreamCache(log);
  /**
   * If true, the line's stream is assumed to be new, which saves a read. Becomes false when a line was already applied,
   * as in a repeated import, and true again when a line is applied.
   */
  let expectsNewStreams = true;
  return async (number: number, { command, values, stream }: CommandLine): Promise<"applied" | "alreadyApplied"> => {
    const id = survey.idByLineNumber[number] as string;
    const isExpectedNew = expectsNewStreams && !cache.has(stream);
    const context = { ...baseContext, correlationId: survey.importId, causationId: id, overbooks: true };
    const requireUnapplied = (events: readonly RecordedEvent[]) => {
      if (isLineApplied(events, number, survey)) throw new AlreadyAppliedError();
    };
    const apply = async (isFresh: boolean) => {
      const isAssumedNew = isExpectedNew && !isFresh;
      // This check precedes all rules, so an applied line is not refused even if a rule would refuse it today.
      if (!isAssumedNew) requireUnapplied(await cache.read(stream, isFresh));
      const dependencies = createDependencies(createLineLog(cache, stream, requireUnapplied, isFresh), {});
      const { events } = await command.run(dependencies, values, { ...context, isExpectedNew: isAssumedNew });
      return events.length > 0;
    };
    try {
      const isApplied = (await apply(false).catch(ignoreRefusal)) || (await apply(true));
      if (isApplied) expectsNewStreams = true;
      return isApplied ? "applied" : "alreadyApplied";
    } catch (error) {
      if (!(error instanceof AlreadyAppliedError)) throw error;
      expectsNewStreams = false;
      return "alreadyApplied";
    }
  };
}

/** Returns false for a refusal, because the cached streams may be outdated. Throws any other error again. */
function ignoreRefusal(error: unknown): false {
  if (error instanceof DomainError) return false;
  throw error;
}

/**
 * Returns true if the last import that changed the object applied this line, or a later line of this file. Returns
 * false if another file has changed the object since, so that the line is applied again.
 */
function isLineApplied(events: readonly RecordedEvent[], number: number, { lineNumberById }: ImportSurvey): boolean {
  const lastEvent = events.findLast(
    ({ metadata: { $causationId, $correlationId } }) => isLineId($causationId) && isLineId($correlationId),
  );
  return lastEvent !== undefined && (lineNumberById.get(lastEvent.metadata.$causationId) ?? 0) >= number;
}
