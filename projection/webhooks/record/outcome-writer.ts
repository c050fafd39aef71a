import type pg from "pg";
import { isValueRefused } from "../../../shared/postgres/unavailable.ts";
import { createBackoff, pause } from "../../../shared/runtime/backoff.ts";
import type { BoundedBuffer } from "../../../shared/runtime/bounded-buffer.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import type { DueEndpoint } from "../schedule/due.ts";
import type { FinishedAttempt } from "../send/attempt-delivery.ts";
import { writeOutcomes } from "./outcomes.ts";
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

/**
 * Writes the outcomes of attempts in batches until the buffer is closed and empty.
 *
 * @param onWritten called with each batch after its commit
 */
export async function runOutcomeWriter(
  options: OutcomeWriterOptions,
  finishedAttempts: BoundedBuffer<FinishedAttempt>,
  onWritten: (outcomes: readonly FinishedAttempt[]) => void,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const outcomes = await finishedAttempts.take(MAX_BATCH_SIZE);
    if (outcomes.length === 0) return;
    if (!(await writeWithRetries(options, outcomes, signal))) continue;
    onWritten(outcomes);
    await pause(WRITE_INTERVAL_MS, signal);
  }
}

/**
 * Writes outcomes. After an error, retries until the write succeeds or the signal aborts. If Postgres refuses a value,
 * writes each half of the outcomes separately, and a single outcome without the response body.
 *
 * @returns false if the signal aborted before a write succeeded
 */
async function writeWithRetries(
  options: OutcomeWriterOptions,
  outcomes: readonly FinishedAttempt[],
  signal: AbortSignal,
): Promise<boolean> {
  const { pool, clock, health, logger } = options;
  const backoff = createBackoff({ firstMs: 50, maxMs: 2_000 });
  for (;;) {
    try {
      const { outboxEventCount, releasedEndpoints } = await writeOutcomes(pool, outcomes, clock());
      if (outboxEventCount > 0) options.onOutboxEvents();
      if (releasedEndpoints.length > 0) options.onDue(releasedEndpoints);
      health.report("outcomes", null);
      for (const { verdict, result } of outcomes) options.onAttempt?.(verdict.status, result.durationMs / 1_000);
      return true;
    } catch (error) {
      if (isValueRefused(error)) return writeParts(options, outcomes, error, signal);
      logger.warn(
        { error, outcomes: outcomes.length },
        "Outcomes of attempts could not be written. The service retries the write.",
      );
      health.report("outcomes", error);
      if (signal.aborted) return false;
      await backoff.pause(signal);
    }
  }
}

async function writeParts(
  options: OutcomeWriterOptions,
  outcomes: readonly FinishedAttempt[],
  error: unknown,
  signal: AbortSignal,
): Promise<boolean> {
  const [first] = outcomes;
  if (!first || outcomes.length > 1) {
    const middle = Math.ceil(outcomes.length / 2);
    const isFirstWritten = await writeWithRetries(options, outcomes.slice(0, middle), signal);
    return (await writeWithRetries(options, outcomes.slice(middle), signal)) && isFirstWritten;
  }
  const { delivery, result } = first;
  const { deliveryId, endpointId } = delivery;
  options.logger.error({ error, deliveryId, endpointId }, "The outcome of an attempt cannot be stored completely.");
  // If the response body is not the cause, the attempt is repeated after its lease.
  if (result.responseBody === null) return true;
  return writeWithRetries(options, [{ ...first, result: { ...result, responseBody: null } }], signal);
}
