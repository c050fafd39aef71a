import type pg from "pg";
import { Counter, Gauge, Histogram } from "prom-client";
import { registerPoolMetrics } from "../../shared/metrics/postgres-metrics.ts";
import { createRegistry } from "../../shared/metrics/registry.ts";
import { closedStatuses } from "../webhooks/record/close-deliveries.ts";

export type Metrics = ReturnType<typeof createMetrics>;

/** Registers the metrics of the service, except the metrics of requests and of the event log. */
export function createMetrics(pools: readonly pg.Pool[] = []) {
  const registry = createRegistry();
  registerPoolMetrics(registry, pools);
  const registers = [registry];
  const createGauge = <Label extends string = never>(name: string, help: string, ...labelNames: Label[]) =>
    new Gauge<Label>({ name, help, labelNames, registers });
  const createCounter = <Label extends string = never>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter<Label>({ name, help, labelNames, registers });
  const metrics = {
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
    quarantinedStreams: createGauge("projection_quarantined_streams", "Number of quarantined streams."),
    blockingSessions: createGauge(
      "postgres_blocking_sessions",
      "Sessions that hold a lock for which the projection service has waited for more than a second, by user.",
      "user",
    ),
    quarantinedEvents: createGauge("projection_quarantined_events", "Number of events that the read models lack."),
    taskSuccess: createGauge(
      "task_last_success_timestamp_seconds",
      "Time of the last success of a daily task: backup or retention. Seconds since 1970.",
      "task",
    ),
    walArchived: createGauge(
      "postgres_wal_last_archived_timestamp_seconds",
      "Time at which Postgres last archived WAL. Seconds since 1970; 0 if archiving is off.",
    ),
    certificateEnd: createGauge(
      "server_certificate_expiry_timestamp_seconds",
      "Time at which the certificate of a server expires: EventStoreDB, Postgres or NATS. Seconds since 1970; 0 without TLS.",
      "server",
    ),
    deliveries: createGauge(
      "webhook_deliveries",
      "Number of deliveries by state: pending, due (included in pending) and failed. Numbers above 5000 are estimates.",
      "state",
    ),
    oldestDueDelivery: createGauge(
      "webhook_oldest_due_delivery_age_seconds",
      "Time for which the oldest due delivery has been due, by the state of its endpoint: healthy, or failing if its last attempt failed. 0 if no delivery is due. Endpoints with a rate limit do not count.",
      "endpoints",
    ),
    attempts: createCounter(
      "webhook_attempts_total",
      "Webhook delivery attempts by this process, by outcome: delivered, pending (to be retried) or failed (not retried).",
      "outcome",
    ),
    attemptDuration: new Histogram({
      name: "webhook_attempt_duration_seconds",
      help: "Duration of webhook delivery attempts by this process.",
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15],
      registers,
    }),
    egressProxyFailures: createCounter(
      "webhook_egress_proxy_failures_total",
      "Webhook delivery attempts by this process that failed because of the egress proxy.",
    ),
    closedDeliveries: createCounter(
      "webhook_closed_deliveries_total",
      "Pending deliveries that this process closed without sending them, by status: skipped or cancelled.",
      "status",
    ),
  };
  for (const outcome of ["delivered", "pending", "failed"]) metrics.attempts.inc({ outcome }, 0);
  for (const status of closedStatuses) metrics.closedDeliveries.inc({ status }, 0);
  return metrics;
}
