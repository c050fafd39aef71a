import type Koa from "koa";
import { ApiError, unavailable } from "../../shared/http/api-error.ts";
import { positionHeader } from "../../shared/partner-api/position-header.ts";
import { createPositionWatch, positionStatement } from "../../shared/postgres/position-watch.ts";
import { READ_TIMEOUT_MS, type ReadRow } from "../http/read.ts";

/** A read waits this long at the most for what it must know of. Milliseconds. */
const WAIT_TIMEOUT_MS = 2_000;

/** Most reads of one application that wait at a time: one that makes positions up keeps nobody else from waiting. */
const MAX_WAITING_PER_APPLICATION = 50;

/** Most reads that wait at a time, of total. */
const MAX_WAITING = 500;

/** Knows how far the read models are, beside the position that a request's header gives. */
export interface AwaitPosition {
  /**
   * Whether the read models do not know yet of what the position stands for; never where there is none.
   *
   * @throws {ApiError} 400 `invalid_log_position`
   */
  isAhead(ctx: Koa.ParameterizedContext): Promise<boolean>;
  /**
   * Waits until they do. The request has been counted against a limit before.
   *
   * @param applicationId whose token the request showed
   * @throws {ApiError} 400 `invalid_log_position`; 503 `read_model_behind` where they are not there in time
   */
  wait(ctx: Koa.ParameterizedContext, applicationId: string): Promise<void>;
}

/**
 * Lets a read see what its caller wrote before: the caller gives the position back that came with the write's answer.
 * Nothing vouches for a position; the worst that one that was made up does is to wait, and be told to come again.
 *
 * @param brand the segment of the header's name
 */
export function createAwaitPosition(read: ReadRow, brand: string): AwaitPosition {
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
      if (!waitingSlots.acquire(applicationId)) throw behind();
      try {
        if (!(await watch(position, WAIT_TIMEOUT_MS))) throw behind();
      } finally {
        waitingSlots.release(applicationId);
      }
    },
  };
}

/** Places to wait in, so many for each application and so many in total. */
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

function behind(): ApiError {
  return unavailable("read_model_behind", undefined, 1);
}
