import type Koa from "koa";
import type pg from "pg";
import { createCircuit } from "../../shared/http/circuit.ts";
import { positionHeader } from "../../shared/partner-api/position-header.ts";
import { createPositionWatch, positionStatement } from "../../shared/postgres/position-watch.ts";
import type { Logger } from "../../shared/runtime/logger.ts";

/** The state of a request whose handler may report a log position. */
export interface LogPositionState {
  /** Log position that a read must have reached to reflect the write; undefined before the write. */
  logPosition: bigint | undefined;
}

/** Waits for the read models to know of a position, for a little while, and never fails. */
export type AwaitReads = (position: bigint) => Promise<void>;

/** An answer is held back this long at the most. Milliseconds. */
const MAX_DELAY_MS = 1_000;

/**
 * A courtesy to callers: their next read mostly knows of the write. No write depends on it. While the database is away
 * or the read models are far behind, answers are not held back.
 */
export function createAwaitReads(pool: pg.Pool, logger: Logger): AwaitReads {
  const circuit = createCircuit({
    answerTimeoutMs: MAX_DELAY_MS + 200,
    onFailure: (error) => logger.warn({ error }, "answers do not wait for the read models"),
  });
  const watch = createPositionWatch(async () => {
    const { rows } = await pool.query<{ position: bigint }>(positionStatement);
    if (!rows[0]) throw new Error("the read models have no position");
    return rows[0].position;
  });
  const reached = async (position: bigint) => {
    if (!(await watch(position, MAX_DELAY_MS))) throw new Error("the read models are behind");
  };
  return (position) => circuit(() => reached(position)).catch(() => undefined);
}

/**
 * Gives the caller the log's position of what was done: a read that gets it back waits until it knows it. The answer
 * itself waits a little, for callers who give nothing back.
 */
export function exposeLogPosition<State extends LogPositionState>(
  brand: string,
  awaitReads: AwaitReads,
): Koa.Middleware<State> {
  return async (ctx, next) => {
    ctx.state.logPosition = undefined;
    await next();
    const { logPosition } = ctx.state;
    if (logPosition === undefined) return;
    ctx.set(positionHeader(brand), String(logPosition));
    await awaitReads(logPosition);
  };
}
