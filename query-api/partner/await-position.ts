import type Koa from "koa";
import { ApiError, unavailable } from "../../shared/http/api-error.ts";
import { positionHeader } from "../../shared/partner-api/position-header.ts";
import { createPositionWatch, positionStatement } from "../../shared/postgres/position-watch.ts";
import { READS_WITHIN, type ReadRow } from "../http/read.ts";

/** A read waits this long at the most for what it must know of. Milliseconds. */
const WITHIN = 2_000;

/** Most reads of one application that wait at a time: one that makes positions up keeps nobody else from waiting. */
const MOST_OF_ONE = 50;

/** Most reads that wait at a time, of all. */
const MOST_WAITING = 500;

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
    const deadline = performance.now() + READS_WITHIN;
    return (await read<{ position: bigint }>(positionStatement, [], deadline)).position;
  });
  const places = createPlaces();
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
      if (!places.take(applicationId)) throw behind();
      try {
        if (!(await watch(position, WITHIN))) throw behind();
      } finally {
        places.leave(applicationId);
      }
    },
  };
}

/** Places to wait in, so many for each application and so many in all. */
function createPlaces() {
  const taken = new Map<string, number>();
  let all = 0;
  return {
    take(applicationId: string): boolean {
      const own = taken.get(applicationId) ?? 0;
      if (own >= MOST_OF_ONE || all >= MOST_WAITING) return false;
      taken.set(applicationId, own + 1);
      all += 1;
      return true;
    },
    leave(applicationId: string): void {
      const own = taken.get(applicationId) ?? 0;
      if (own > 1) taken.set(applicationId, own - 1);
      else taken.delete(applicationId);
      all -= 1;
    },
  };
}

function behind(): ApiError {
  return unavailable("read_model_behind", undefined, 1);
}
