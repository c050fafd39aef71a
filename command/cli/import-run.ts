import type { EventMetadata } from "../../shared/events/metadata.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, DomainError } from "../handle.ts";
import type { Call } from "./command.ts";
import { failureOf } from "./failure.ts";
import { createLineIds, readLine } from "./import-line.ts";
import type { Line } from "./import-lines.ts";
import { createOrder } from "./import-order.ts";
import type { createProgress, Tally } from "./import-progress.ts";
import { AlreadyDone, onceOnly } from "./once.ts";

/** What a file holds, seen before anything is done. */
export interface Survey {
  /** Lines that are not blank. */
  lines: number;
  /** Follows from the content. */
  importId: string;
  /** The number of each readable line, by the line's id. */
  lineOf: Map<string, number>;
}

/** So many lines are begun and not over, those that wait for their turn among them. */
const IN_FLIGHT = 64;

type Progress = ReturnType<typeof createProgress>;

/** An import under way. */
interface Running {
  survey: Survey;
  log: EventLog;
  /** Whose import it is; each line's own id becomes the cause of its events. */
  base: CommandContext;
  progress: Progress;
  takeTurn: ReturnType<typeof createOrder>;
  tally: Tally;
  /** What a line failed to change, with its number: later lines about the same are left. */
  failed: Map<string, number>;
  /** What is no line's fault: nothing more is begun. */
  broken: { error: unknown } | undefined;
}

/**
 * Carries lines out, those that depend on each other in order and the others side by side.
 *
 * @throws what is no line's fault (the log out of reach), when the lines that were begun are over
 */
export async function carryOutLines(
  lines: AsyncIterable<Line>,
  survey: Survey,
  log: EventLog,
  base: CommandContext,
  progress: Progress,
): Promise<Tally> {
  const tally: Tally = { lines: 0, done: 0, unchanged: 0, invalid: 0, refused: 0 };
  const order = { takeTurn: createOrder(), failed: new Map<string, number>() };
  const running: Running = { survey, log, base, progress, tally, ...order, broken: undefined };
  const idOf = createLineIds();
  const inFlight = new Set<Promise<void>>();
  for await (const { number, text } of lines) {
    if (running.broken) break;
    const read = readLine(text);
    if ("problem" in read) {
      count(running, "invalid", `line ${number}: ${read.problem}`);
      continue;
    }
    const work = carryOutInTurn(running, number, read.call, idOf(read.key)).finally(() =>
      inFlight.delete(work),
    );
    inFlight.add(work);
    if (inFlight.size >= IN_FLIGHT) await Promise.race(inFlight);
  }
  await Promise.all(inFlight);
  if (running.broken) {
    progress.line(`import: stopped after ${tally.lines} lines; run the same import again to go on`);
    throw running.broken.error;
  }
  return tally;
}

async function carryOutInTurn(running: Running, number: number, call: Call, lineId: string): Promise<void> {
  const { failed } = running;
  const turn = running.takeTurn(call);
  await turn.come;
  try {
    if (running.broken) return;
    const cause = failed.get(call.changes);
    if (cause !== undefined)
      throw new DomainError("follows_failure", `it follows line ${cause}, which failed`);
    count(running, await carryOutOnce(running, number, call, lineId));
  } catch (error) {
    if (error instanceof DomainError) {
      if (!failed.has(call.changes)) failed.set(call.changes, number);
      count(running, "refused", `line ${number}: ${failureOf(error).line}`);
    } else running.broken ??= { error };
  } finally {
    turn.over();
  }
}

async function carryOutOnce(
  { survey, log, base }: Running,
  number: number,
  call: Call,
  lineId: string,
): Promise<"done" | "unchanged"> {
  const { importId, lineOf } = survey;
  const isLater = ({ $correlationId, $causationId }: EventMetadata) =>
    $correlationId === importId && (lineOf.get($causationId) ?? 0) > number;
  const context = { ...base, correlationId: importId, causationId: lineId };
  try {
    const { events } = await call.outcome(onceOnly(log, lineId, isLater), context);
    return events > 0 ? "done" : "unchanged";
  } catch (error) {
    if (error instanceof AlreadyDone) return "unchanged";
    throw error;
  }
}

function count({ tally, progress }: Running, result: Exclude<keyof Tally, "lines">, problem?: string): void {
  tally.lines += 1;
  tally[result] += 1;
  if (problem !== undefined) progress.line(problem);
  progress.show(tally);
}
