import type pg from "pg";
import { pause } from "../../../shared/runtime/backoff.ts";
import type { BoundedBuffer } from "../../../shared/runtime/bounded-buffer.ts";
import { isLockTimeout } from "../../../shared/runtime/failures.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { divide, type Loop, runWork } from "../../../shared/runtime/work.ts";
import type { DueEndpoint } from "../schedule/schedule.ts";
import type { FinishedAttempt } from "../send/attempt-delivery.ts";
import { writeOutcomes } from "./outcomes.ts";

export interface OutcomeWriterOptions {
  pool: pg.Pool;
  logger: Logger;
  createLoop(name: string): Loop;
  onDue(endpoints: readonly DueEndpoint[]): void;
  /**
   * Called for each recorded attempt, with the new status of its delivery (delivered, pending or failed) and the
   * duration of the attempt in seconds.
   */
  onAttempt?(outcome: string, seconds: number): void;
  /** Milliseconds since 1970. */
  clock(): number;
}

interface OutcomeCallbacks {
  /**
   * Called with outcomes after their commit. Also called with outcomes that cannot be written. The attempts of these
   * outcomes are repeated when their leases expire.
   */
  onWritten(outcomes: readonly FinishedAttempt[]): void;
  /** Called with outcomes that wait, because another transaction has locked their rows. */
  onWaiting(outcomes: readonly FinishedAttempt[]): void;
}

const MAX_BATCH_SIZE = 200;

const WRITE_INTERVAL_MS = 5;

/** Pause between two attempts to write outcomes whose rows are locked. */
const LOCKED_INTERVAL_MS = 1_000;

/** After the writer meets a locked row, it skips locked rows for this time instead of waiting for them. */
const SKIP_LOCKED_MS = 5_000;

/** Maximum number of outcomes that wait for locked rows. */
const MAX_WAITING = 2_000;

/**
 * Writes the outcomes of attempts in batches until the buffer is closed and empty. If another transaction has locked
 * the rows of an outcome, only this outcome waits. If the database refuses a value of an outcome, writes the outcome
 * without the response body.
 */
export function runOutcomeWriter(
  options: OutcomeWriterOptions,
  finishedAttempts: BoundedBuffer<FinishedAttempt>,
  { onWritten, onWaiting }: OutcomeCallbacks,
  signal: AbortSignal,
): Promise<void> {
  const { pool, logger, clock } = options;
  let waiting: FinishedAttempt[] = [];
  let triedAt = 0;
  let skipUntil = 0;
  const write = async (outcomes: readonly FinishedAttempt[]): Promise<void> => {
    const writing = { skipsLocked: performance.now() < skipUntil, now: clock() };
    const { writtenIds, releasedEndpoints } = await writeOutcomes(pool, outcomes, writing).catch((error: unknown) => {
      if (isLockTimeout(error)) skipUntil = performance.now() + SKIP_LOCKED_MS;
      throw error;
    });
    options.onDue(releasedEndpoints);
    const [written, locked] = [true, false].map((isWritten) =>
      outcomes.filter(({ delivery }) => writtenIds.has(delivery.deliveryId) === isWritten),
    ) as [FinishedAttempt[], FinishedAttempt[]];
    for (const { verdict, result } of written) options.onAttempt?.(verdict.status, result.durationMs / 1_000);
    onWritten(written);
    if (locked.length > 0) wait(locked);
  };
  const wait = (outcomes: readonly FinishedAttempt[]) => {
    logger.warn({ count: outcomes.length }, "Outcomes of attempts wait for locked rows.");
    skipUntil = performance.now() + SKIP_LOCKED_MS;
    onWaiting(outcomes);
    // Without room, or at the end of the role, the attempts are repeated after their leases.
    const roomCount = signal.aborted ? 0 : MAX_WAITING - waiting.length;
    waiting.push(...outcomes.slice(0, roomCount));
    onWritten(outcomes.slice(roomCount));
  };
  const takeWaiting = () => {
    const outcomes = waiting.slice(0, MAX_BATCH_SIZE);
    waiting = waiting.slice(MAX_BATCH_SIZE);
    triedAt = performance.now();
    return outcomes;
  };
  const work = {
    async take() {
      await pause(WRITE_INTERVAL_MS, signal);
      if (waiting.length > 0 && performance.now() - triedAt >= LOCKED_INTERVAL_MS) return takeWaiting();
      const outcomes =
        waiting.length > 0 ? finishedAttempts.takeNow(MAX_BATCH_SIZE) : await finishedAttempts.take(MAX_BATCH_SIZE);
      return outcomes.length > 0 || (waiting.length > 0 && !signal.aborted) ? outcomes : undefined;
    },
    handle: write,
    async setAside(outcome: FinishedAttempt, error: unknown) {
      const { deliveryId, endpointId } = outcome.delivery;
      logger.error({ error, deliveryId, endpointId }, "The outcome of an attempt cannot be stored completely.");
      // If the response body is not the cause, the attempt is repeated after its lease.
      if (outcome.result.responseBody === null) return onWritten([outcome]);
      await divide([{ ...outcome, result: { ...outcome.result, responseBody: null } }], work);
    },
  };
  return runWork(work, options.createLoop("outcomes"));
}
