import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { getSafeMessage } from "../../shared/runtime/logger.ts";
import { DIFFERENT_LOG, DifferentLogError } from "../checkpoints/same-log.ts";
import type { LastError, RoleStatus } from "./role.ts";

/** Returns the fields of a status that stay valid when the process gives up the lead. */
export function pickLastingFields({ position, eventCount, lastError }: RoleStatus): Partial<RoleStatus> {
  return { position, eventCount, lastError };
}

/** Creates the status of a role that failed, with the failed event if an event is the cause. */
export function toFailedStatus(statusBefore: RoleStatus, error: unknown, failedAt?: LogPosition): RoleStatus {
  const detail = error instanceof DifferentLogError ? DIFFERENT_LOG : null;
  return {
    ...pickLastingFields(statusBefore),
    ...{ state: "failed", detail, isLeader: false, lastError: toLastError(error), failedAt },
  };
}

/** Converts an error to the form that a role's status shows, with the current time. */
export function toLastError(error: unknown): LastError {
  return { message: error instanceof Error ? getSafeMessage(error) : String(error), at: Date.now() };
}
