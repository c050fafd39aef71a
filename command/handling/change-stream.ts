import { type EventLog, type NewEvent, WrongExpectedRevision } from "../../shared/eventstore/log.ts";
import { backoff } from "../../shared/runtime/backoff.ts";
import { type AddToBatch, createBatches, TooManyWaiting } from "../../shared/runtime/batches.ts";

/** What becomes of one change: its result, or the error that refuses it. */
export type ChangeOutcome<Result> = { result: Result } | { error: unknown };

/** Several changes of one stream, decided one after the other. */
export interface Plan<Result> {
  /** The stream's last revision as it was loaded; -1n if there is no stream. */
  revision: bigint;
  /** The events of all changes, in order. */
  events: NewEvent[];
  /**
   * Gives the outcome of each change, in order, once the events are in the log.
   *
   * @param position the last event's position; undefined if there were no events
   */
  outcomes(position: bigint | undefined): ChangeOutcome<Result>[];
}

interface Waiting<Change> {
  change: Change;
  /** When the change is given up, by `performance.now()`. */
  deadline: number;
}

/** A change that others are ahead of again and again is given up after this. Milliseconds. */
const CHANGE_TIMEOUT_MS = 10_000;

/** Changes of a stream that may wait in this process, and that are appended together: far below 1 MiB of events. */
const BATCH_LIMITS = { maxWaiting: 2_000, maxBatch: 50 };

/** Processes that lost a race must not run the next one at the same time. Milliseconds. */
const RETRY_DELAYS_MS = { first: 5, most: 100 };

/** One for each log, which stands for a process. */
const batches = new WeakMap<EventLog, AddToBatch<Waiting<unknown>, ChangeOutcome<unknown>>>();

/**
 * Changes a stream that others may change at the same time. The changes of this process that arrive while one is under
 * way are decided together and appended at once, so that they do not race each other. If another process was first, all
 * are decided again.
 *
 * @param decide loads the stream and decides changes on it, in order; the same for all changes of a stream
 * @throws what `decide` throws for the change
 * @throws {WrongExpectedRevision} after ten seconds, or at once if 2,000 changes of the stream wait already
 */
export async function changeStream<Change, Result>(
  log: EventLog,
  stream: string,
  change: Change,
  decide: (changes: Change[]) => Promise<Plan<Result>>,
): Promise<Result> {
  const add = batchesOf<Change, Result>(log);
  const waiting = { change, deadline: performance.now() + CHANGE_TIMEOUT_MS };
  try {
    return resultOf(await add(stream, waiting, (changes) => appendBatch(log, stream, changes, decide)));
  } catch (error) {
    if (error instanceof TooManyWaiting) throw new WrongExpectedRevision(error.message, { cause: error });
    throw error;
  }
}

/**
 * Changes a stream once. Somebody else's change at the same time is an error.
 *
 * @throws what `decide` throws for the change
 * @throws {WrongExpectedRevision} if somebody else appended to the stream first
 */
export async function changeOnce<Change, Result>(
  log: EventLog,
  stream: string,
  change: Change,
  decide: (changes: Change[]) => Promise<Plan<Result>>,
): Promise<Result> {
  const { revision, events, outcomes } = await decide([change]);
  const position = events.length > 0 ? await log.append(stream, revision, events) : undefined;
  return resultOf(outcomes(position)[0] as ChangeOutcome<Result>);
}

function resultOf<Result>(outcome: ChangeOutcome<Result>): Result {
  if ("error" in outcome) throw outcome.error;
  return outcome.result;
}

/** @returns an outcome for each change, in order; those whose deadline has passed are given up undecided */
async function appendBatch<Change, Result>(
  log: EventLog,
  stream: string,
  changes: Waiting<Change>[],
  decide: (changes: Change[]) => Promise<Plan<Result>>,
): Promise<ChangeOutcome<Result>[]> {
  const wait = backoff(RETRY_DELAYS_MS);
  const outcomes = new Map<Waiting<Change>, ChangeOutcome<Result>>();
  let left = changes;
  for (;;) {
    const now = performance.now();
    for (const late of left.filter(({ deadline }) => deadline <= now))
      outcomes.set(late, { error: givenUp() });
    left = left.filter(({ deadline }) => deadline > now);
    if (left.length === 0) break;
    const plan = await decide(left.map(({ change }) => change));
    const appended = await tryAppend(log, stream, plan);
    if (appended) {
      const decided = plan.outcomes(appended.position);
      for (const [index, change] of left.entries())
        outcomes.set(change, decided[index] as ChangeOutcome<Result>);
      break;
    }
    await wait.next(new AbortController().signal);
  }
  return changes.map((change) => outcomes.get(change) as ChangeOutcome<Result>);
}

/** @returns undefined if somebody else appended to the stream first */
async function tryAppend(
  log: EventLog,
  stream: string,
  { revision, events }: Plan<unknown>,
): Promise<{ position: bigint | undefined } | undefined> {
  if (events.length === 0) return { position: undefined };
  try {
    return { position: await log.append(stream, revision, events) };
  } catch (error) {
    if (error instanceof WrongExpectedRevision) return undefined;
    throw error;
  }
}

function givenUp(): WrongExpectedRevision {
  return new WrongExpectedRevision("others changed the stream first, again and again");
}

function batchesOf<Change, Result>(log: EventLog): AddToBatch<Waiting<Change>, ChangeOutcome<Result>> {
  const known = batches.get(log) ?? createBatches<Waiting<unknown>, ChangeOutcome<unknown>>(BATCH_LIMITS);
  batches.set(log, known);
  return known as AddToBatch<Waiting<Change>, ChangeOutcome<Result>>;
}
