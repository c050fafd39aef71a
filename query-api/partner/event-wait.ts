import type Koa from "koa";
import { ApiError } from "../../shared/http/api-error.ts";
import { type ClinicState, hasClinic } from "../../shared/partner-api/access.ts";
import type { EventWatch } from "./event-watch.ts";
import type { WaitForEvent } from "./read.ts";

/** Maximum number of requests of an application that wait for events in one process. */
const MAX_WAITS_PER_APPLICATION = 200;

/** Maximum number of requests that wait for events in one process. A waiting request needs memory and a socket. */
const MAX_WAITS = 1_000;

export interface EventWait {
  /**
   * Waits for an event of the request's clinic, or of its application if it names no clinic. The time does not count as
   * the duration of the request.
   *
   * @returns true if the request should be authorized and read again; false if the service stops or the caller is gone
   * @throws {ApiError} 429 `too_many_waiting_requests`
   */
  wait(ctx: Koa.ParameterizedContext<ClinicState>, wait: WaitForEvent): Promise<boolean>;
}

export function createEventWait(watch: EventWatch): EventWait {
  const waitingApplicationIds: string[] = [];
  return {
    async wait(ctx, { position, timeoutMs }) {
      const { applicationId } = ctx.state;
      const matchingIds = waitingApplicationIds.filter((id) => id === applicationId);
      if (matchingIds.length >= MAX_WAITS_PER_APPLICATION || waitingApplicationIds.length >= MAX_WAITS)
        throw new ApiError(429, "too_many_waiting_requests", { headers: { "Retry-After": "5" } });
      waitingApplicationIds.push(applicationId);
      const controller = new AbortController();
      const abort = () => controller.abort();
      ctx.res.once("close", abort);
      const startedAt = performance.now();
      try {
        const ownerId = hasClinic(ctx.state) ? ctx.state.clinicId : applicationId;
        return (await watch.wait(ownerId, position, timeoutMs, controller.signal)) !== "aborted";
      } finally {
        ctx.res.off("close", abort);
        ctx.state.waitedMs = (ctx.state.waitedMs ?? 0) + performance.now() - startedAt;
        waitingApplicationIds.splice(waitingApplicationIds.indexOf(applicationId), 1);
      }
    },
  };
}
