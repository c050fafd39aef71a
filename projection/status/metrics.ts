import type Koa from "koa";
import { Counter, Gauge, Histogram, Registry } from "prom-client";

/** Prometheus metrics of one process. */
export type Metrics = ReturnType<typeof createMetrics>;

/** Creates the metrics in a new registry. */
export function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  const createGauge = <Label extends string = never>(name: string, help: string, ...labelNames: Label[]) =>
    new Gauge<Label>({ name, help, labelNames, registers });
  const createCounter = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter<Label>({ name, help, labelNames, registers });
  return {
    registry,
    position: createGauge("projection_position", "Position of a role in the event log.", "role"),
    lagEvents: createGauge("projection_lag_events", "Unprocessed events of a role. Estimated above 1000.", "role"),
    lagSeconds: createGauge("projection_lag_seconds", "Age of the first unprocessed event, in seconds.", "role"),
    leader: createGauge("projection_leader", "1 if this process leads the role, otherwise 0.", "role"),
    waits: createGauge(
      "projection_waits",
      "1 if the role waits for a server that is unavailable, otherwise 0.",
      "role",
    ),
    failed: createGauge(
      "projection_failed",
      "1 if the role stopped at an event that it cannot process, or because the event log is a different one, otherwise 0.",
      "role",
    ),
    events: createCounter("projection_events_total", "Events processed by this process.", "role"),
    batch: new Histogram({
      name: "projection_batch_duration_seconds",
      help: "Duration of one projector transaction, in seconds.",
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
      registers,
    }),
    parkedStreams: createGauge("projection_parked_streams", "Number of parked streams."),
    parkedEvents: createGauge(
      "projection_parked_events",
      "Number of events of parked streams that the read models skipped.",
    ),
    deliveries: createGauge(
      "webhook_deliveries",
      "Number of deliveries by state: pending, due (included in pending) and failed. Numbers above 5000 are estimates.",
      "state",
    ),
    attempts: createCounter(
      "webhook_attempts_total",
      "Webhook delivery attempts by this process, by outcome.",
      "outcome",
    ),
  };
}

/** Serves GET /metrics in the text format of Prometheus. */
export function serveMetrics({ registry }: Metrics): Koa.Middleware {
  return async (ctx, next) => {
    if (ctx.path !== "/metrics" || ctx.method !== "GET") return next();
    ctx.body = await registry.metrics();
    ctx.type = registry.contentType;
  };
}
