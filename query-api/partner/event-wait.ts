import type Koa from "koa";
import { ApiError } from "../../shared/http/api-error.ts";
import { type ClinicState, hasClinic } from "../../shared/partner-api/access.ts";
import type { ConcurrencyLimiter } from "../../shared/rate-limit/concurrency.ts";
import type { EventWatch } from "./event-watch.ts";
import type { WaitForEvent } from "./read.ts";

/** Maximum number of requests of an application that wait for events in one process. */
const MAX_WAITS_PER_APPLICATION = 200;

/** Maximum number of requests that wait for events in one process. A waiting request needs memory and a socket. */
const MAX_WAITS = 1_000;

export interface EventWait {
  /**
   * Waits for an event of the request's clinic, or of its application if it names no clinic. The time does not count as
   * the duration of the request. If too many requests wait, a wait of the application with the most waits ends early.
   *
   * @returns true if the request should be authorized and read again; false if the wait ended early
   * @throws {ApiError} 429 `too_many_waiting_requests`
   */
  wait(ctx: Koa.ParameterizedContext<ClinicState>, wait: WaitForEvent): Promise<boolean>;
}

/** @param concurrencyLimiter limit of the requests in progress, which a request leaves while it waits */
export function createEventWait(watch: EventWatch, concurrencyLimiter: ConcurrencyLimiter): EventWait {
  /** Functions that end the waits of each application, the oldest wait first. */
  const waits = new Map<string, Set<() => void>>();

  function requireRoom(applicationId: string): void {
    const counts = Array.from(waits, ([id, { size }]) => ({ id, size }));
    const ownCount = waits.get(applicationId)?.size ?? 0;
    if (ownCount < MAX_WAITS_PER_APPLICATION && counts.reduce((sum, { size }) => sum + size, 0) < MAX_WAITS) return;
    const largest = counts.reduce((a, b) => (b.size > a.size ? b : a));
    const [endOldest] = waits.get(largest.id) ?? [];
    if (ownCount + 1 >= largest.size || !endOldest)
      throw new ApiError(429, "too_many_waiting_requests", { headers: { "Retry-After": "5" } });
    endOldest();
    // A burst of requests must not end the same wait several times.
    waits.get(largest.id)?.delete(endOldest);
  }

  return {
    async wait(ctx, { position, timeoutMs }) {
      const { applicationId } = ctx.state;
      requireRoom(applicationId);
      const controller = new AbortController();
      const abort = () => controller.abort();
      const ownWaits = waits.get(applicationId) ?? new Set();
      waits.set(applicationId, ownWaits.add(abort));
      ctx.res.once("close", abort);
      const startedAt = performance.now();
      concurrencyLimiter.leave(applicationId);
      try {
        const ownerId = hasClinic(ctx.state) ? ctx.state.clinicId : applicationId;
        return (await watch.wait(ownerId, position, timeoutMs, controller.signal)) !== "aborted";
      } finally {
        concurrencyLimiter.reenter(applicationId);
        ctx.res.off("close", abort);
        ctx.state.waitedMs = (ctx.state.waitedMs ?? 0) + performance.now() - startedAt;
        ownWaits.delete(abort);
        if (ownWaits.size === 0) waits.delete(applicationId);
      }
    },
  };
}
