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

const LOCKED_INTERVAL_MS = 1_000;

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
 * @param onWritten called with outcomes after their commit
 */
export async function runOutcomeWriter(
  options: OutcomeWriterOptions,
  finishedAttempts: BoundedBuffer<FinishedAttempt>,
  onWritten: OutcomeWriter["onWritten"],
  signal: AbortSignal,
): Promise<void> {
  // Has room for all reserved deliveries, so that adding an outcome never waits.
  const lockedOutcomes = new BoundedBuffer<FinishedAttempt>(MAX_RESERVED_DELIVERIES);
  const onLocked = (outcomes: readonly FinishedAttempt[]) => {
    // The attempts are repeated after their lease.
    if (!signal.aborted) for (const outcome of outcomes) void lockedOutcomes.push(outcome);
  };
  const writer = { ...options, onWritten, onLocked, signal };
  const lockedPromise = retryLocked(writer, lockedOutcomes);
  for (;;) {
    const outcomes = await finishedAttempts.take(MAX_BATCH_SIZE);
    if (outcomes.length === 0) break;
    await writeWithRetries(writer, outcomes);
    await pause(WRITE_INTERVAL_MS, signal);
  }
  lockedOutcomes.close();
  await lockedPromise;
}

/** Writes the outcomes that had to wait, once their rows are unlocked. */
async function retryLocked(writer: OutcomeWriter, lockedOutcomes: BoundedBuffer<FinishedAttempt>): Promise<void> {
  const onLocked = (outcomes: readonly FinishedAttempt[]) =>
    outcomes.length > 1 ? writeHalves(dividingWriter, outcomes) : writer.onLocked(outcomes);
  const dividingWriter: OutcomeWriter = { ...writer, onLocked };
  for (;;) {
    const outcomes = await lockedOutcomes.take(MAX_BATCH_SIZE);
    if (outcomes.length === 0) return;
    const unlockedIds = await findUnlocked(writer.pool, outcomes).catch((error: unknown) => {
      writer.logger.warn({ error }, "Cannot check which outcomes of attempts can be written.");
      return new Set<string>();
    });
    const isUnlocked = ({ delivery }: FinishedAttempt) => unlockedIds.has(delivery.deliveryId);
    await writeWithRetries(dividingWriter, outcomes.filter(isUnlocked));
    await writer.onLocked(outcomes.filter((outcome) => !isUnlocked(outcome)));
    await pause(LOCKED_INTERVAL_MS, writer.signal);
  }
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
