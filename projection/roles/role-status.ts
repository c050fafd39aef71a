import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { DIFFERENT_LOG, DifferentLog } from "../checkpoints/same-log.ts";
import { lastErrorNow } from "./last-error.ts";
import type { RoleStatus } from "./role.ts";

/** What outlives the end of a term in a role's status. */
export function kept({ position, events, lastError }: RoleStatus): Partial<RoleStatus> {
  return {
    ...(position !== undefined && { position }),
    ...(events && { events }),
    ...(lastError && { lastError }),
  };
}

/** The status of a role that stopped, with the cause, and the event's place if an event is the cause. */
export function failed(before: RoleStatus, error: unknown, place?: LogPosition): RoleStatus {
  const detail = error instanceof DifferentLog ? DIFFERENT_LOG : null;
  return {
    ...kept(before),
    ...{ state: "failed", detail, leads: false, lastError: lastErrorNow(error) },
    ...(place && { failedAt: place }),
  };
}
