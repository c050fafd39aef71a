import { lastErrorNow } from "../roles/last-error.ts";
import type { RoleStatus } from "../roles/role.ts";
import type { ProjectionProgress } from "./projection-options.ts";

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
