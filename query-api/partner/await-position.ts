import type Koa from "koa";
import { ApiError, unavailable } from "../../shared/http/api-error.ts";
import { positionHeader } from "../../shared/partner-api/position-header.ts";
import { createPositionWatch, positionStatement } from "../../shared/postgres/position-watch.ts";
import { READ_TIMEOUT_MS, type ReadRow } from "../http/read.ts";

/** Maximum time that a read waits for its log position. */
const WAIT_TIMEOUT_MS = 2_000;

/** Maximum number of waiting reads per application, so that invented positions cannot block other applications. */
const MAX_WAITING_PER_APPLICATION = 50;

/** Maximum number of waiting reads of all applications. */
const MAX_WAITING = 500;

/** Compares the read models' position with the log position in a request's header. */
export interface PositionWait {
  /**
   * Returns true if the request's position is ahead of the read models. Returns false if the request has no position.
   *
   * @throws {ApiError} 400 `invalid_log_position`
   */
  isAhead(ctx: Koa.ParameterizedContext): Promise<boolean>;
  /**
   * Waits until the read models reach the request's position. The request must have been counted by the rate limiter.
   *
   * @param applicationId application of the request's token
   * @throws {ApiError} 400 `invalid_log_position`; 503 `read_model_behind` if the read models do not reach
   * it in time, or if too many reads wait
   */
  wait(ctx: Koa.ParameterizedContext, applicationId: string): Promise<void>;
}

/**
 * Makes reads reflect earlier writes. The caller sends the log position that the write returned. Positions are not
 * authenticated: a request with an invented position waits and then fails.
 *
 * @param brand brand segment of the header's name
 */
export function createPositionWait(read: ReadRow, brand: string): PositionWait {
  const header = positionHeader(brand).toLowerCase();
  const watch = createPositionWatch(async () => {
    const deadline = performance.now() + READ_TIMEOUT_MS;
    return (await read<{ position: bigint }>(positionStatement, [], deadline)).position;
  });
  const waitingSlots = createWaitingSlots();
  const positionOf = (ctx: Koa.ParameterizedContext): bigint | undefined => {
    const given = ctx.req.headersDistinct[header];
    if (given === undefined) return undefined;
    const [text = ""] = given;
    if (given.length > 1 || !/^\d{1,20}$/.test(text)) throw new ApiError(400, "invalid_log_position");
    return BigInt(text);
  };
  return {
    async isAhead(ctx) {
      const position = positionOf(ctx);
      return position !== undefined && !(await watch(position, 0));
    },
    async wait(ctx, applicationId) {
      const position = positionOf(ctx);
      if (position === undefined) return;
      if (!waitingSlots.acquire(applicationId)) throw createBehindError();
      try {
        if (!(await watch(position, WAIT_TIMEOUT_MS))) throw createBehindError();
      } finally {
        waitingSlots.release(applicationId);
      }
    },
  };
}

/** Limits the number of waiting reads, per application and in total. */
function createWaitingSlots() {
  const waiting = new Map<string, number>();
  let total = 0;
  return {
    acquire(applicationId: string): boolean {
      const own = waiting.get(applicationId) ?? 0;
      if (own >= MAX_WAITING_PER_APPLICATION || total >= MAX_WAITING) return false;
      waiting.set(applicationId, own + 1);
      total += 1;
      return true;
    },
    release(applicationId: string): void {
      const own = waiting.get(applicationId) ?? 0;
      if (own > 1) waiting.set(applicationId, own - 1);
      else waiting.delete(applicationId);
      total -= 1;
    },
  };
}

function createBehindError(): ApiError {
  return unavailable("read_model_behind", undefined, 1);
}
