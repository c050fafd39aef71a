import type Koa from "koa";
import { startTrace } from "../tracing/span.ts";
import { checkTraceparent } from "../tracing/traceparent.ts";
import type { RequestState } from "./app.ts";

/** Paths of monitoring, whose frequent requests are not traced. */
const MONITORING_PATH = /^\/(health\/|metrics)/;

/**
 * Starts a trace for each request. The trace does not continue the trace of the caller, because anyone can send any
 * `traceparent`: a caller could otherwise force recording, or add spans to the trace of someone else. The first span
 * links to the caller's span.
 */
export function traceRequests(): Koa.Middleware<RequestState> {
  return async (ctx, next) => {
    const isMonitoring = MONITORING_PATH.test(ctx.req.url ?? "");
    const span = isMonitoring ? undefined : startTrace(ctx.method, "server", checkTraceparent(ctx.headers.traceparent));
    if (!span) return next();
    ctx.state.traceparent = span.traceparent;
    await next();
    const route = (ctx as { _matchedRoute?: string })._matchedRoute;
    if (route !== undefined) {
      span.setName(`${ctx.method} ${route}`);
      span.setAttributes({ "http.route": route });
    }
    span.setAttributes({
      "http.request.method": ctx.method,
      "http.response.status_code": ctx.status,
      "correlation.id": ctx.state.correlationId,
    });
    span.end(ctx.status >= 500 ? String(ctx.status) : undefined);
  };
}
