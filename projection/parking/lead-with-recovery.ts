import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createEventLog } from "../../shared/eventstore/log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { DifferentLogError, untilSameLog } from "../checkpoints/same-log.ts";
import { type LeadershipOptions, withLeadership } from "../roles/leadership.ts";
import { type Follower, isParked, readParked } from "./parked-streams.ts";

export interface RecoveryOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  logger: Logger;
  signal: AbortSignal;
  role: Follower;
  leadership: Omit<LeadershipOptions, "logger" | "signal">;
  /** Does the role's work until its signal aborts. */
  lead(term: AbortSignal): Promise<void>;
  /**
   * Called when the role fails.
   *
   * @returns the event that it cannot process, if an event is the cause, and a check for another reason to try again
   */
  onFailure(error: unknown): { place: LogPosition | undefined; hasMoved(): Promise<boolean> };
}

/** Milliseconds. */
const RECOVERY_CHECK_INTERVAL_MS = 1_000;

/**
 * Leads a role until the signal aborts. If the role fails, it gives up the lead and waits for a reason to try again: an
 * operator parks the stream of the failed event, another process moves the checkpoint, or the log fits the database
 * again.
 */
export async function leadWithRecovery(options: RecoveryOptions): Promise<void> {
  const { leadership, lead, logger, role, signal } = options;
  while (!signal.aborted) {
    try {
      await withLeadership({ ...leadership, logger, signal }, lead);
    } catch (error) {
      const failure = options.onFailure(error);
      logger.fatal({ error }, `${role} stopped`);
      if (error instanceof DifferentLogError) await untilSameLog(options, signal);
      else await untilRecoverable(options, failure);
      if (!signal.aborted) logger.info(`${role} tries again`);
    }
  }
}

async function untilRecoverable(
  { client, role, logger, signal }: RecoveryOptions,
  { place, hasMoved }: ReturnType<RecoveryOptions["onFailure"]>,
): Promise<void> {
  const log = createEventLog(client);
  while (!signal.aborted) {
    await pause(RECOVERY_CHECK_INTERVAL_MS, signal);
    try {
      if (place && isParked(await readParked(log), role, place)) return;
      if (await hasMoved()) return;
    } catch (error) {
      logger.warn({ error }, "Cannot check whether the stream is parked");
    }
  }
}
