import type Koa from "koa";
import { TimeoutError, withTimeout } from "../runtime/timeout.ts";
import { createUnavailableError } from "./api-error.ts";
import type { RequestState } from "./app.ts";

/**
 * Sends 503 if a handler takes too long. Each call to the event log or Postgres has its own time limit, but several
 * slow calls can add up. A late handler continues, and its outcome is logged.
 *
 * @param timeoutMs time limit, counted from the receipt of the request's headers
 * @param code error code of the 503. The code must mean that the outcome is unknown and that the caller may repeat the
 *   request
 */
export function limitResponseTime(timeoutMs: number, code: string): Koa.Middleware<RequestState> {
  return async (ctx, next) => {
    const startedAt = performance.now();
    const controller = new AbortController();
    ctx.state.signal = controller.signal;
    const handlerPromise = next();
    try {
      await withTimeout(timeoutMs, handlerPromise);
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error;
      controller.abort(error);
      const getDurationMs = () => Math.round(performance.now() - startedAt);
      handlerPromise.then(
        () => ctx.state.log.write("warn", { duration: getDurationMs() }, "request succeeded after 503 was sent"),
        (cause) =>
          ctx.state.log.write(
            "error",
            { error: cause, duration: getDurationMs() },
            "request failed after 503 was sent",
          ),
      );
      throw createUnavailableError(code, error);
    }
  };
}
