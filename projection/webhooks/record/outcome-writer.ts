import type pg from "pg";
import { isLockTimeout, isValueRefused } from "../../../shared/postgres/unavailable.ts";
import { createBackoff, pause } from "../../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../../shared/runtime/bounded-buffer.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import type { DueEndpoint } from "../schedule/due.ts";
import { MAX_RESERVED_DELIVERIES } from "../schedule/slots.ts";
import type { FinishedAttempt } from "../send/attempt-delivery.ts";
import { findUnlocked, writeOutcomes } from "./outcomes.ts";
import type { HealthTracker } from "./retry-forever.ts";

export interface OutcomeWriterOptions {
  pool: pg.Pool;
  logger: Logger;
  health: HealthTracker;
  onOutboxEvents(): void;
  onDue(endpoints: readonly DueEndpoint[]): void;
  /**
   * Called for each recorded attempt, with the new status of its delivery (delivered, pending or failed) and the
   * duration of the attempt in seconds.
   */
  onAttempt?(outcome: string, seconds: number): void;
  /** Milliseconds since 1970. */
  clock(): number;
}

const MAX_BATCH_SIZE = 200;

const WRITE_INTERVAL_MS = 5;

/** Pause between two searches for outcomes whose rows are no longer locked. */
const LOCKED_INTERVAL_MS = 1_000;

/** Time after a locked row in which the writer first checks which rows are locked, instead of waiting for the locks. */
const CHECK_LOCKS_MS = 5_000;

interface OutcomeWriter extends OutcomeWriterOptions {
  /** Called with outcomes after their commit. */
  onWritten(outcomes: readonly FinishedAttempt[]): void;
  /** Called with outcomes that were not written, because the rows of at least one are locked. */
  onLocked(outcomes: readonly FinishedAttempt[]): void | Promise<void>;
  signal: AbortSignal;
}

/**
 * Writes the outcomes of attempts in batches until the buffer is closed and empty. An outcome whose rows somebody has
 * locked waits, and others do not.
 *
 * @param callbacks.onWritten called with outcomes after their commit
 * @param callbacks.onWaiting called with outcomes that wait
 */
export async function runOutcomeWriter(
  options: OutcomeWriterOptions,
  finishedAttempts: BoundedBuffer<FinishedAttempt>,
  { onWritten, onWaiting }: Record<"onWritten" | "onWaiting", (outcomes: readonly FinishedAttempt[]) => void>,
  signal: AbortSignal,
): Promise<void> {
  const waitingOutcomes = new BoundedBuffer<FinishedAttempt>(MAX_RESERVED_DELIVERIES);
  let lockedAt = Number.NEGATIVE_INFINITY;
  const setAside = (outcomes: readonly FinishedAttempt[]) => {
    if (outcomes.length > 0) lockedAt = performance.now();
    onWaiting(outcomes);
    for (const outcome of outcomes) {
      // Without room, or at the end of the role, the attempt is repeated after its lease.
      if (signal.aborted || waitingOutcomes.isFull) onWritten([outcome]);
      else void waitingOutcomes.push(outcome);
    }
  };
  const divide = (outcomes: readonly FinishedAttempt[]) =>
    outcomes.length > 1 ? writeHalves(dividingWriter, outcomes) : setAside(outcomes);
  const dividingWriter: OutcomeWriter = { ...options, onWritten, onLocked: divide, signal };
  /** @returns false if all outcomes are locked */
  const writeUnlocked = async (outcomes: readonly FinishedAttempt[]): Promise<boolean> => {
    const unlockedIds = await findUnlocked(options.pool, outcomes).catch((error: unknown) => {
      options.logger.warn({ error }, "Cannot check which outcomes of attempts can be written.");
      return new Set<string>();
    });
    const isUnlocked = ({ delivery }: FinishedAttempt) => unlockedIds.has(delivery.deliveryId);
    setAside(outcomes.filter((outcome) => !isUnlocked(outcome)));
    await writeWithRetries(dividingWriter, outcomes.filter(isUnlocked));
    return unlockedIds.size > 0;
  };
  const writeWaiting = async () => {
    for (;;) {
      const outcomes = await waitingOutcomes.take(MAX_BATCH_SIZE);
      if (outcomes.length === 0) return;
      if (!(await writeUnlocked(outcomes))) await pause(LOCKED_INTERVAL_MS, signal);
    }
  };
  const writer: OutcomeWriter = {
    ...dividingWriter,
    onLocked: async (outcomes) => void (await writeUnlocked(outcomes)),
  };
  const waitingPromise = writeWaiting();
  for (;;) {
    const outcomes = await finishedAttempts.take(MAX_BATCH_SIZE);
    if (outcomes.length === 0) break;
    if (performance.now() - lockedAt < CHECK_LOCKS_MS) await writeUnlocked(outcomes);
    else await writeWithRetries(writer, outcomes);
    await pause(WRITE_INTERVAL_MS, signal);
  }
  waitingOutcomes.close();
  await waitingPromise;
}

/**
 * Writes outcomes. After an error, retries until the write succeeds or the signal aborts. If Postgres refuses a value,
 * writes each half of the outcomes separately, and a single outcome without the response body.
 */
async function writeWithRetries(writer: OutcomeWriter, outcomes: readonly FinishedAttempt[]): Promise<void> {
  const { pool, clock, health, logger, signal } = writer;
  const backoff = createBackoff({ firstMs: 50, maxMs: 2_000 });
  while (outcomes.length > 0) {
    try {
      const { outboxEventCount, releasedEndpoints } = await writeOutcomes(pool, outcomes, clock());
      if (outboxEventCount > 0) writer.onOutboxEvents();
      if (releasedEndpoints.length > 0) writer.onDue(releasedEndpoints);
      health.report("outcomes", null);
      for (const { verdict, result } of outcomes) writer.onAttempt?.(verdict.status, result.durationMs / 1_000);
      return writer.onWritten(outcomes);
    } catch (error) {
      if (isValueRefused(error)) return writeParts(writer, outcomes, error);
      if (isLockTimeout(error)) {
        logger.warn({ error, outcomes: outcomes.length }, "Outcomes of attempts wait, because a row is locked.");
        return writer.onLocked(outcomes);
      }
      logger.warn(
        { error, outcomes: outcomes.length },
        "Outcomes of attempts could not be written. The service retries the write.",
      );
      health.report("outcomes", error);
      if (signal.aborted) return;
      await backoff.pause(signal);
    }
  }
}

async function writeParts(writer: OutcomeWriter, outcomes: readonly FinishedAttempt[], error: unknown): Promise<void> {
  const [first] = outcomes;
  if (!first || outcomes.length > 1) return writeHalves(writer, outcomes);
  const { delivery, result } = first;
  const { deliveryId, endpointId } = delivery;
  writer.logger.error({ error, deliveryId, endpointId }, "The outcome of an attempt cannot be stored completely.");
  // If the response body is not the cause, the attempt is repeated after its lease.
  if (result.responseBody === null) return writer.onWritten(outcomes);
  return writeWithRetries(writer, [{ ...first, result: { ...result, responseBody: null } }]);
}

async function writeHalves(writer: OutcomeWriter, outcomes: readonly FinishedAttempt[]): Promise<void> {
  const middle = Math.ceil(outcomes.length / 2);
  await writeWithRetries(writer, outcomes.slice(0, middle));
  await writeWithRetries(writer, outcomes.slice(middle));
}
