import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { safeMessage } from "../../shared/runtime/logger.ts";
import { DIFFERENT_LOG, DifferentLogError } from "../checkpoints/same-log.ts";
import type { LastError, RoleStatus } from "./role.ts";

/** Returns the parts of a status that are kept after the end of a term. */
export function kept({ position, events, lastError }: RoleStatus): Partial<RoleStatus> {
  return {
    ...(position !== undefined && { position }),
    ...(events && { events }),
    ...(lastError && { lastError }),
  };
}

/** Creates the status of a role that failed, with the failed event if an event is the cause. */
export function failed(before: RoleStatus, error: unknown, place?: LogPosition): RoleStatus {
  const detail = error instanceof DifferentLogError ? DIFFERENT_LOG : null;
  return {
    ...kept(before),
    ...{ state: "failed", detail, leads: false, lastError: lastErrorNow(error) },
    ...(place && { failedAt: place }),
  };
}

/** Converts an error of this moment for the status of a role. */
export function lastErrorNow(error: unknown): LastError {
  return { message: error instanceof Error ? safeMessage(error) : String(error), at: Date.now() };
}
