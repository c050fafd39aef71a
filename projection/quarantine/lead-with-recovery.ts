import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { DifferentLogError, waitForSameLog } from "../checkpoints/same-log.ts";
import { type LeadershipOptions, withLeadership } from "../roles/leadership.ts";
import type { LogRole, RoleDeps } from "../roles/role.ts";
import { isQuarantined, readQuarantineDecisions } from "./decisions.ts";

export interface RecoveryOptions extends RoleDeps {
  signal: AbortSignal;
  role: LogRole;
  leadership: Omit<LeadershipOptions, "databaseUrl" | "logger" | "signal">;
  lead(termSignal: AbortSignal): Promise<void>;
  onFailure(error: unknown): Failure;
}

interface Failure {
  /** Undefined if no event is the cause. */
  failedEventPosition: LogPosition | undefined;
  /** Returns true if another process has moved the role's checkpoint since the failure. */
  hasCheckpointMoved(): Promise<boolean>;
}

const RECOVERY_CHECK_INTERVAL_MS = 1_000;

/**
 * Leads a role until the signal aborts. If the role fails, this process gives up the lead. The process retries when an
 * operator has quarantined the stream of the failed event, another process has moved the checkpoint, or the log matches
 * the database again.
 */
export async function leadWithRecovery(options: RecoveryOptions): Promise<void> {
  const { databaseUrl, leadership, lead, logger, role, signal } = options;
  while (!signal.aborted) {
    try {
      await withLeadership({ ...leadership, databaseUrl, logger, signal }, lead);
    } catch (error) {
      const failure = options.onFailure(error);
      logger.fatal({ error }, `${role} stopped`);
      if (error instanceof DifferentLogError) await waitForSameLog(options, signal);
      else await waitUntilRecoverable(options, failure);
      if (!signal.aborted) logger.info(`${role} retries`);
    }
  }
}

async function waitUntilRecoverable(
  { client, logger, signal }: RecoveryOptions,
  { failedEventPosition, hasCheckpointMoved }: Failure,
): Promise<void> {
  while (!signal.aborted) {
    await pause(RECOVERY_CHECK_INTERVAL_MS, signal);
    try {
      if (failedEventPosition && isQuarantined(await readQuarantineDecisions(client), failedEventPosition)) return;
      if (await hasCheckpointMoved()) return;
    } catch (error) {
      logger.warn({ error }, "Cannot check whether the stream is quarantined or the checkpoint has moved.");
    }
  }
}
