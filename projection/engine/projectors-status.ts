import type { Place } from "../../shared/eventstore/subscription.ts";
import { DIFFERENT_LOG, DifferentLog } from "../log/same-log.ts";
import type { RoleStatus } from "../role.ts";
import { lastErrorNow } from "../status/last-error.ts";
import type { ProjectionProgress } from "./projection.ts";

/** What one term's end does not wipe away of a status. */
export function kept({ position, events, lastError }: RoleStatus): Partial<RoleStatus> {
  return {
    ...(position !== undefined && { position }),
    ...(events && { events }),
    ...(lastError && { lastError }),
  };
}

/** @param eventsBefore taken in the terms before this one */
export function statusAfter(
  before: RoleStatus,
  progress: ProjectionProgress,
  eventsBefore: number,
): RoleStatus {
  const { position, caughtUp, waitsFor, trouble, events } = progress;
  const detail = waitsFor === null ? (caughtUp ? null : "catching up") : (`waits for ${waitsFor}` as const);
  // Once it has caught up it runs, and a later wait does not make it start anew.
  const state = before.state === "running" || caughtUp ? "running" : "starting";
  const lastError = waitsFor !== null && trouble ? lastErrorNow(trouble) : before.lastError;
  return {
    ...{ state, detail, leads: true, position, events: eventsBefore + events },
    ...(lastError && { lastError }),
  };
}

/** The status of a role that stopped, with the cause, and the event's place if an event is the cause. */
export function failed(before: RoleStatus, error: unknown, place?: Place): RoleStatus {
  const detail = error instanceof DifferentLog ? DIFFERENT_LOG : null;
  return {
    ...kept(before),
    ...{ state: "failed", detail, leads: false, lastError: lastErrorNow(error) },
    ...(place && { failedAt: place }),
  };
}
