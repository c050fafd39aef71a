import { Counter, Histogram, type Registry } from "prom-client";

/**
 * Records a finished request.
 *
 * @param operation name of the route, or undefined if the request matched no route
 * @param seconds time until the response was ready
 */
export type RecordRequest = (operation: string | undefined, status: number, seconds: number) => void;

/** Value of the label `operation` for all requests that match no route, so that callers cannot create time series. */
const NO_OPERATION = "none";

/** Upper bounds of the durations that the histogram counts. Seconds. */
const DURATION_BUCKETS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25];

/** Registers the metrics of HTTP requests. */
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
