import type Koa from "koa";
import { TimeoutError, withTimeout } from "../runtime/timeout.ts";
import { unavailable } from "./api-error.ts";
import type { RequestState } from "./app.ts";

/**
 * Answers every request within a time. Each exchange with a server has its own limit, but a request makes several, one
 * after the other, and on a busy machine each may take nearly as long as it may.
 *
 * A handler that is late goes on, and its outcome is logged.
 *
 * @param milliseconds from the end of the request's headers on
 * @param code of the 503; the request's outcome is then unknown, and it may be repeated
 */
export function limitAnswerTime(milliseconds: number, code: string): Koa.Middleware<RequestState> {
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
