import type { IncomingHttpHeaders } from "node:http";
import type Koa from "koa";
import type { Registry } from "prom-client";

/** Path of the metrics. */
export const METRICS_PATH = "/metrics";

/**
 * Serves GET /metrics in the text format of Prometheus. Passes on requests that a proxy has forwarded, so that the
 * metrics are not public if a proxy forwards all paths.
 */
export function serveMetrics(registry: Registry): Koa.Middleware {
  const sendMetrics = async (ctx: Koa.Context) => {
    ctx.body = await registry.metrics();
    ctx.type = registry.contentType;
  };
  return (ctx, next) =>
    ctx.path !== METRICS_PATH || ctx.method !== "GET" || isForwarded(ctx.req.headers) ? next() : sendMetrics(ctx);
}

function isForwarded(headers: IncomingHttpHeaders): boolean {
  return headers["x-forwarded-for"] !== undefined || headers.forwarded !== undefined;
}
