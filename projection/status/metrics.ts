import type Koa from "koa";
import { Counter, Gauge, Histogram, Registry } from "prom-client";

/** What the process counts and measures, for Prometheus. One registry a process. */
export interface Metrics {
  registry: Registry;
  position: Gauge<"role">;
  lagEvents: Gauge<"role">;
  lagSeconds: Gauge<"role">;
  leader: Gauge<"role">;
  waits: Gauge<"role">;
  failed: Gauge<"role">;
  events: Counter<"role">;
  batch: Histogram;
  parkedStreams: Gauge;
  parkedEvents: Gauge;
  deliveries: Gauge<"state">;
  attempts: Counter<"outcome">;
}

/** The metrics of this process, in a registry of their own. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const gauge = <Label extends string = never>(name: string, help: string, ...labelNames: Label[]) =>
    new Gauge<Label>({ name, help, labelNames, registers });
  const counter = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter<Label>({ name, help, labelNames, registers });
  return {
    registry,
    position: gauge("projection_position", "How far a role is in the event log.", "role"),
    lagEvents: gauge("projection_lag_events", "Events behind; beyond a thousand an estimate.", "role"),
    lagSeconds: gauge("projection_lag_seconds", "Age of the first event that is not taken yet.", "role"),
    leader: gauge("projection_leader", "1 if this process leads the role, 0 if it does not.", "role"),
    waits: gauge("projection_waits", "1 where the role waits for something out of reach.", "role"),
    failed: gauge(
      "projection_failed",
      "1 if the role stopped: at an event that it cannot take, or at a different log.",
      "role",
    ),
    events: counter("projection_events_total", "Events taken by this process.", "role"),
    batch: new Histogram({
      name: "projection_batch_duration_seconds",
      help: "One transaction of the projectors.",
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
      registers,
    }),
    parkedStreams: gauge("projection_parked_streams", "Streams that are parked."),
    parkedEvents: gauge("projection_parked_events", "Events that the read models leave out."),
    deliveries: gauge(
      "webhook_deliveries",
      "Deliveries: pending, due (of the pending ones) and failed for good.",
      "state",
    ),
    attempts: counter("webhook_attempts_total", "Attempts of webhooks by this process.", "outcome"),
  };
}

/** GET /metrics, in the text format of Prometheus. */
export function serveMetrics({ registry }: Metrics): Koa.Middleware {
  return async (ctx, next) => {
    if (ctx.path !== "/metrics" || ctx.method !== "GET") return next();
    ctx.body = await registry.metrics();
    ctx.type = registry.contentType;
  };
}
