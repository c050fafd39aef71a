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

/** Waits a short time for the read models to reach a log position. Never rejects. */
export type AwaitReads = (position: bigint) => Promise<void>;

/** Maximum delay of an answer. Milliseconds. */
const MAX_DELAY_MS = 1_000;

/**
 * Creates a wait for the read models, so that a caller's next read usually reflects the write. While the database is
 * unavailable or the read models are far behind, answers are not delayed.
 */
export function createAwaitReads(pool: pg.Pool, logger: Logger): AwaitReads {
  const circuit = createCircuit({
    responseTimeoutMs: MAX_DELAY_MS + 200,
    onFailure: (error) => logger.warn({ error }, "answers are sent without waiting for the read models"),
  });
  const watch = createPositionWatch(async () => {
    const { rows } = await pool.query<{ position: bigint }>(positionStatement);
    if (!rows[0]) throw new Error("the read models have no log position");
    return rows[0].position;
  });
  const reached = async (position: bigint) => {
    if (!(await watch(position, MAX_DELAY_MS))) throw new Error("the read models are behind");
  };
  // The circuit logs failures. The write has succeeded, so its answer is sent in any case.
  return (position) => circuit(() => reached(position)).catch(() => undefined);
}

/**
 * Returns the log position of a write to the caller in a header. A read with that header waits until it reflects the
 * write. The answer is also delayed a little, for callers that do not send the header.
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
