import type Koa from "koa";
import { ApiError, unavailable } from "../../shared/http/api-error.ts";
import { positionHeader } from "../../shared/partner-api/position-header.ts";
import { createPositionWatch, positionStatement } from "../../shared/postgres/position-watch.ts";
import { READS_WITHIN, type ReadRow } from "../read.ts";

/** A read waits this long at the most for what it must know of. Milliseconds. */
const WITHIN = 2_000;

/** Most reads that wait at a time. */
const MOST_WAITING = 500;

/** Waits until the read models know of what the request's position header stands for; at once where it has none. */
export type AwaitPosition = (ctx: Koa.ParameterizedContext) => Promise<void>;

/**
 * Lets a read see what its caller wrote before: the caller gives the position back that came with the write's answer.
 *
 * @param brand the segment of the header's name
 * @throws {ApiError} 400 `invalid_log_position`; 503 `read_model_behind` where the read models are not there in time
 */
export function createAwaitPosition(read: ReadRow, brand: string): AwaitPosition {
  const header = positionHeader(brand).toLowerCase();
  const watch = createPositionWatch(async () => {
    const deadline = performance.now() + READS_WITHIN;
    return (await read<{ position: bigint }>(positionStatement, [], deadline)).position;
  });
  let waiting = 0;
  return async (ctx) => {
    const given = ctx.req.headersDistinct[header];
    if (given === undefined) return;
    const [text = ""] = given;
    if (given.length > 1 || !/^\d{1,20}$/.test(text)) throw new ApiError(400, "invalid_log_position");
    if (waiting >= MOST_WAITING) throw behind();
    waiting += 1;
    try {
      if (!(await watch(BigInt(text), WITHIN))) throw behind();
    } finally {
      waiting -= 1;
    }
  };
}

function behind(): ApiError {
  return unavailable("read_model_behind", undefined, 1);
}
