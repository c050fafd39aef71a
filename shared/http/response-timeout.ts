import type Koa from "koa";
import { TimeoutError, withTimeout } from "../runtime/timeout.ts";
import { unavailable } from "./api-error.ts";
import type { RequestState } from "./app.ts";

/**
 * Answers 503 if a handler takes too long. Each call to a server has its own time limit, but a request makes several
 * calls in sequence, and on a busy machine their times add up.
 *
 * A handler that is late continues, and its outcome is logged.
 *
 * @param milliseconds time limit, from the end of the request's headers
 * @param code error code of the 503; the outcome of the request is unknown, and it may be repeated
 */
export function limitResponseTime(milliseconds: number, code: string): Koa.Middleware<RequestState> {
  return async (ctx, next) => {
    const started = performance.now();
    const handled = next();
    try {
      await withTimeout(milliseconds, handled);
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error;
      const duration = () => Math.round(performance.now() - started);
      handled.then(
        () => ctx.state.log.warn({ duration: duration() }, "request succeeded after it was answered 503"),
        (cause) =>
          ctx.state.log.error(
            { error: cause, duration: duration() },
            "request failed after it was answered 503",
          ),
      );
      throw unavailable(code, error);
    }
  };
}
