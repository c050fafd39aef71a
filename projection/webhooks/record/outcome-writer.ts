import type pg from "pg";
import { pause } from "../../../shared/runtime/backoff.ts";
import type { BoundedBuffer } from "../../../shared/runtime/bounded-buffer.ts";
import { classify, isLockTimeout } from "../../../shared/runtime/failures.ts";
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
 * Writes the outcomes of attempts in batches until the buffer is closed and empty. The signal must abort when the buffer
 * closes: a failure or a locked row then no longer delays the end. If another transaction has locked the rows of an
 * outcome, only this outcome waits. If the database refuses a value of an outcome, writes the outcome without the
 * response body.
 */
export function runOutcomeWriter(
  options: OutcomeWriterOptions,
  finishedAttempts: BoundedBuffer<FinishedAttempt>,
  { onWritten, onWaiting }: OutcomeCallbacks,
  signal: AbortSignal,
): Promise<void> {
  const { pool, logger, clock } = options;
  let waitingCount = 0;
  let skipUntil = 0;
  const write = async (outcomes: readonly FinishedAttempt[]): Promise<void> => {
    const tryToWrite = () =>
      writeOutcomes(pool, outcomes, { skipsLocked: performance.now() < skipUntil, now: clock() });
    const { writtenIds, releasedEndpoints } = await tryToWrite().catch((error: unknown) => {
      if (!isLockTimeout(error)) throw error;
      skipUntil = performance.now() + SKIP_LOCKED_MS;
      return tryToWrite();
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
    // Without room, or at the end, the attempts are repeated after their leases.
    const roomCount = signal.aborted ? 0 : MAX_WAITING - waitingCount;
    const waiting = outcomes.slice(0, roomCount);
    onWritten(outcomes.slice(roomCount));
    waitingCount += waiting.length;
    // After the end, the closed buffer drops the outcomes.
    const pushAgain = () => {
      waitingCount -= waiting.length;
      for (const outcome of waiting) void finishedAttempts.push(outcome);
    };
    setTimeout(pushAgain, LOCKED_INTERVAL_MS).unref();
  };
  const work = {
    async take() {
      await pause(WRITE_INTERVAL_MS, signal);
      const outcomes = await finishedAttempts.take(MAX_BATCH_SIZE);
      return outcomes.length > 0 ? outcomes : undefined;
    },
    handle: (outcomes: readonly FinishedAttempt[]) =>
      write(outcomes).catch((error: unknown) => {
        // An unknown error is retried, so the outcomes wait until an operator has acted.
        throw classify(error) === "stop" ? new Error((error as Error).message, { cause: error }) : error;
      }),
    async setAside(outcome: FinishedAttempt, error: unknown) {
      const { deliveryId, endpointId } = outcome.delivery;
      logger.error({ error, deliveryId, endpointId }, "The outcome of an attempt cannot be stored completely.");
      // If the response body is not the cause, the attempt is repeated after its lease.
      if (outcome.result.responseBody === null) return onWritten([outcome]);
      await divide([{ ...outcome, result: { ...outcome.result, responseBody: null } }], work);
    },
  };
  return runWork(work, { ...options.createLoop("outcomes"), signal });
}
