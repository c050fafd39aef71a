import { type EventLog, type NewEvent, WrongExpectedRevisionError } from "../../shared/eventstore/log.ts";
import { createBackoff } from "../../shared/runtime/backoff.ts";
import { type AddToBatch, createBatcher, QueueFullError } from "../../shared/runtime/batches.ts";

/** Result of one change, or the error if the change was refused. */
export type ChangeOutcome<Result> = { result: Result } | { error: unknown };

/** Decision on a batch of changes to one stream. */
export interface BatchDecision<Result> {
  /** Last revision of the stream when it was loaded; `EMPTY_STREAM` if the stream does not exist. */
  revision: bigint;
  /** True if the revision was assumed instead of read. A conflict is then likely, and retried without delay. */
  isRevisionAssumed?: boolean;
  /** Events of all changes, in the order of the changes. */
  events: NewEvent[];
  /**
   * Returns the outcome of each change, in the order of the changes. Called after the events are appended.
   *
   * @param position log position of the last event; undefined if there are no events
   */
  toOutcomes(position: bigint | undefined): ChangeOutcome<Result>[];
}

/**
 * Loads the stream and decides the changes in order.
 *
 * @param attempt number of earlier attempts to append the batch
 */
type DecideBatch<Change, Result> = (changes: Change[], attempt: number) => Promise<BatchDecision<Result>>;

interface PendingChange<Change> {
  change: Change;
  /** Time at which the change fails, as a value of `performance.now()`. */
  deadline: number;
}

/** Time limit for retrying a change that conflicts with other writers. Milliseconds. */
const CHANGE_TIMEOUT_MS = 10_000;

/**
 * Maximum number of changes that wait for a stream, and maximum number of changes in one append. An append of 50
 * changes stays far below 1 MiB.
 */
const BATCH_LIMITS = { maxWaitingItems: 2_000, maxBatchSize: 50 };

/** First and longest retry delay. Delays have jitter, so that competing processes do not retry simultaneously. */
const RETRY_DELAYS_MS = { firstMs: 5, maxMs: 100 };

/** Pending batches of each event log. */
const addToBatchByLog = new WeakMap<EventLog, AddToBatch<PendingChange<unknown>, ChangeOutcome<unknown>>>();

/**
 * Changes a stream that other processes may change concurrently. While one change by this process is in progress,
 * further changes by this process wait. All waiting changes are then decided and appended together, so that these
 * changes do not compete with each other. If another process appends first, the whole batch is decided again on the new
 * state.
 *
 * @param decide must be the same function for all changes of a stream
 * @throws what `decide` throws for the change
 * @throws {WrongExpectedRevisionError} after 10 seconds, or immediately if 2,000 changes of the stream are waiting
 */
export async function changeStream<Change, Result>(
  log: EventLog,
  stream: string,
  change: Change,
  decide: DecideBatch<Change, Result>,
): Promise<Result> {
  const addToBatch = getBatchAdder<Change, Result>(log);
  const newChange = { change, deadline: performance.now() + CHANGE_TIMEOUT_MS };
  try {
    return unwrapOutcome(await addToBatch(stream, newChange, (changes) => appendBatch(log, stream, changes, decide)));
  } catch (error) {
    if (error instanceof QueueFullError) throw new WrongExpectedRevisionError(error.message, { cause: error });
    throw error;
  }
}

/**
 * Changes a stream without retry. If another writer appends first, the change fails.
 *
 * @throws what `decide` throws for the change
 * @throws {WrongExpectedRevisionError} if another writer appended to the stream first
 */
export async function changeStreamOnce<Change, Result>(
  log: EventLog,
  stream: string,
  change: Change,
  decide: DecideBatch<Change, Result>,
): Promise<Result> {
  const decision = await decide([change], 0);
  const position = await appendEvents(log, stream, decision);
  return unwrapOutcome(decision.toOutcomes(position)[0] as ChangeOutcome<Result>);
}

function unwrapOutcome<Result>(outcome: ChangeOutcome<Result>): Result {
  if ("error" in outcome) throw outcome.error;
  return outcome.result;
}

/** @returns an outcome for each change, in order; a change whose deadline has passed fails without a decision */
async function appendBatch<Change, Result>(
  log: EventLog,
  stream: string,
  changes: PendingChange<Change>[],
  decide: DecideBatch<Change, Result>,
): Promise<ChangeOutcome<Result>[]> {
  const backoff = createBackoff(RETRY_DELAYS_MS);
  for (let attempt = 0; ; attempt += 1) {
    const now = performance.now();
    const pendingChanges = changes.filter(({ deadline }) => deadline > now);
    if (pendingChanges.length === 0) return changes.map(() => ({ error: createTimeoutError() }));
    const decision = await decide(
      pendingChanges.map(({ change }) => change),
      attempt,
    );
    try {
      const decidedOutcomes = decision.toOutcomes(await appendEvents(log, stream, decision));
      const outcomes = new Map(pendingChanges.map((change, index) => [change, decidedOutcomes[index]]));
      return changes.map((change) => outcomes.get(change) ?? { error: createTimeoutError() });
    } catch (error) {
      if (!(error instanceof WrongExpectedRevisionError)) throw error;
    }
    if (!decision.isRevisionAssumed) await backoff.pause(new AbortController().signal);
  }
}

/** @returns log position of the last event; undefined if there are no events */
async function appendEvents(
  log: EventLog,
  stream: string,
  { revision, events }: BatchDecision<unknown>,
): Promise<bigint | undefined> {
  return events.length > 0 ? log.append(stream, revision, events) : undefined;
}

function createTimeoutError(): WrongExpectedRevisionError {
  return new WrongExpectedRevisionError("other writers kept appending to the stream first");
}

function getBatchAdder<Change, Result>(log: EventLog): AddToBatch<PendingChange<Change>, ChangeOutcome<Result>> {
  const addToBatch =
    addToBatchByLog.get(log) ?? createBatcher<PendingChange<unknown>, ChangeOutcome<unknown>>(BATCH_LIMITS);
  addToBatchByLog.set(log, addToBatch);
  return addToBatch as AddToBatch<PendingChange<Change>, ChangeOutcome<Result>>;
}
