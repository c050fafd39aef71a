import type { IncomingHttpHeaders } from "node:http";
import type Koa from "koa";
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Readiness } from "../http/health.ts";
import { requireReadMethod } from "../http/router.ts";

/**
 * Records a finished request.
 *
 * @param operation name of the route, or undefined if the request matched no route
 * @param seconds time until the response was ready
 */
type RecordRequest = (operation: string | undefined, status: number, seconds: number) => void;

/** Label of requests that match no route. Labels with paths would let callers create any number of time series. */
const NO_OPERATION = "none";

const DURATION_BUCKETS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25];

export function registerRequestMetrics(registry: Registry): RecordRequest {
  const registers = [registry];
  const requests = new Counter({
    name: "http_requests_total",
    help: "Requests by operation and status. Health checks and scrapes are not counted.",
    labelNames: ["operation", "status"] as const,
    registers,
  });
  const durations = new Histogram({
    name: "http_request_duration_seconds",
    help: "Time until the response to a request was ready, by operation. A streamed body can take longer.",
    labelNames: ["operation"] as const,
    buckets: DURATION_BUCKETS,
    registers,
  });
  return (operation = NO_OPERATION, status, seconds) => {
    requests.inc({ operation, status });
    durations.observe({ operation }, seconds);
  };
}

/**
 * Registers the metric that tells whether the process is ready. An ingress that checks /health/ready sends no requests
 * to a process that is not ready, so the metrics of requests do not show this state.
 */
export function registerReadinessMetric(registry: Registry, checkReadiness: Readiness): void {
  new Gauge({
    name: "service_ready",
    help: "1 if the process is ready for requests, otherwise 0.",
    registers: [registry],
    async collect() {
      const problems = Object.values(await checkReadiness());
      this.set(problems.every((problem) => problem === null) ? 1 : 0);
    },
  });
}

const METRICS_PATH = "/metrics";

/**
 * Serves GET /metrics in the text format of Prometheus. Ignores requests that a proxy has forwarded, because the
 * metrics must not be public.
 */
export function serveMetrics(registry: Registry): Koa.Middleware {
  const sendMetrics = async (ctx: Koa.Context) => {
    requireReadMethod(ctx);
    ctx.body = await registry.metrics();
    ctx.type = registry.contentType;
  };
  return (ctx, next) => (ctx.path !== METRICS_PATH || isForwarded(ctx.req.headers) ? next() : sendMetrics(ctx));
}

function isForwarded(headers: IncomingHttpHeaders): boolean {
  return headers["x-forwarded-for"] !== undefined || headers.forwarded !== undefined;
}
