import { type EventLog, type NewEvent, WrongExpectedRevisionError } from "../../shared/eventstore/log.ts";
import { createBackoff } from "../../shared/runtime/backoff.ts";
import { type AddToBatch, createBatches, QueueFullError } from "../../shared/runtime/batches.ts";

/** Result of one change, or the error that refused it. */
export type ChangeOutcome<Result> = { result: Result } | { error: unknown };

/** Decision on several changes of one stream, in order. */
export interface Plan<Result> {
  /** Last revision of the stream when it was loaded; `EMPTY_STREAM` if it does not exist. */
  revision: bigint;
  /** The events of all changes, in order. */
  events: NewEvent[];
  /**
   * Returns the outcome of each change, in order, after the events are appended.
   *
   * @param position log position of the last event; undefined if there are no events
   */
  outcomes(position: bigint | undefined): ChangeOutcome<Result>[];
}

interface Waiting<Change> {
  change: Change;
  /** Time at which the change fails, by `performance.now()`. */
  deadline: number;
}

/** Time limit for a change that keeps losing to other changes. Milliseconds. */
const CHANGE_TIMEOUT_MS = 10_000;

/** Maximum number of waiting changes of a stream, and of changes in one append, far below 1 MiB of events. */
const BATCH_LIMITS = { maxWaiting: 2_000, maxBatch: 50 };

/** Delays with jitter, so that processes that lost a race do not retry at the same time. Milliseconds. */
const RETRY_DELAYS_MS = { firstMs: 5, maxMs: 100 };

/** Batches by event log. Each process has one log. */
const batches = new WeakMap<EventLog, AddToBatch<Waiting<unknown>, ChangeOutcome<unknown>>>();

/**
 * Changes a stream that other processes may change concurrently. Changes that arrive in this process while one is in
 * progress are decided and appended together, so that they do not compete. If another process appended first, all of
 * them are decided again.
 *
 * @param decide loads the stream and decides the changes in order; the same function for all changes of a stream
 * @throws what `decide` throws for the change
 * @throws {WrongExpectedRevisionError} after 10 seconds, or immediately if 2,000 changes of the stream are waiting
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
    if (error instanceof QueueFullError)
      throw new WrongExpectedRevisionError(error.message, { cause: error });
    throw error;
  }
}

/**
 * Changes a stream without retry. A concurrent change is an error.
 *
 * @throws what `decide` throws for the change
 * @throws {WrongExpectedRevisionError} if another writer appended to the stream first
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

/** @returns an outcome for each change, in order; changes past their deadline fail without a decision */
async function appendBatch<Change, Result>(
  log: EventLog,
  stream: string,
  changes: Waiting<Change>[],
  decide: (changes: Change[]) => Promise<Plan<Result>>,
): Promise<ChangeOutcome<Result>[]> {
  const wait = createBackoff(RETRY_DELAYS_MS);
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

/** @returns undefined if another writer appended to the stream first */
async function tryAppend(
  log: EventLog,
  stream: string,
  { revision, events }: Plan<unknown>,
): Promise<{ position: bigint | undefined } | undefined> {
  if (events.length === 0) return { position: undefined };
  try {
    return { position: await log.append(stream, revision, events) };
  } catch (error) {
    if (error instanceof WrongExpectedRevisionError) return undefined;
    throw error;
  }
}

function givenUp(): WrongExpectedRevisionError {
  return new WrongExpectedRevisionError("other writers kept changing the stream first");
}

function batchesOf<Change, Result>(log: EventLog): AddToBatch<Waiting<Change>, ChangeOutcome<Result>> {
  const known = batches.get(log) ?? createBatches<Waiting<unknown>, ChangeOutcome<unknown>>(BATCH_LIMITS);
  batches.set(log, known);
  return known as AddToBatch<Waiting<Change>, ChangeOutcome<Result>>;
}
