import type Koa from "koa";
import { getPositionHeader } from "../../shared/partner-api/operations.ts";
import type { PositionWatch } from "../../shared/postgres/read-model-position.ts";
import { Circuit } from "../../shared/runtime/circuit.ts";
import type { Logger } from "../../shared/runtime/logger.ts";

/** State of a request whose handler may set a log position. */
export interface LogPositionState {
  /** Log position that the read models must reach to reflect the write; undefined before the write. */
  logPosition: bigint | undefined;
}

/** Waits up to one second for the read models to reach a log position. Never rejects. */
export type WaitForReadModels = (position: bigint) => Promise<void>;

const MAX_RESPONSE_DELAY_MS = 1_000;

/**
 * Creates the function that delays responses to writes, so that the caller's next read usually reflects the write.
 * While the database is unavailable or the read models are far behind, responses are not delayed.
 */
export function createReadModelWaiter(watch: PositionWatch, logger: Logger): WaitForReadModels {
  const circuit = new Circuit({
    callTimeoutMs: MAX_RESPONSE_DELAY_MS + 200,
    onFailure: (error) => logger.warn({ error }, "responses are sent without waiting for the read models"),
  });
  const requirePosition = async (position: bigint) => {
    if (!(await watch.wait(position, MAX_RESPONSE_DELAY_MS))) throw new Error("the read models are behind");
  };
  // The circuit breaker logs failures. The write has succeeded, so its response is sent in any case.
  return (position) => circuit.call(() => requirePosition(position)).catch(() => undefined);
}

/**
 * Returns the log position of a write to the caller in a response header. A read that sends the header waits until the
 * read models reflect the write. The response to the write is delayed for up to one second, so that reads without the
 * header usually reflect the write too.
 */
export function exposeLogPosition<State extends LogPositionState>(
  brand: string,
  waitForReadModels: WaitForReadModels,
): Koa.Middleware<State> {
  return async (ctx, next) => {
    ctx.state.logPosition = undefined;
    await next();
    const { logPosition } = ctx.state;
    if (logPosition === undefined) return;
    ctx.set(getPositionHeader(brand), String(logPosition));
    await waitForReadModels(logPosition);
  };
}
