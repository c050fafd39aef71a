import { collectDefaultMetrics, type Metric, Registry } from "prom-client";

/** Gauges of prom-client to leave out. Prometheus reserves names that end with `_total` for counters. */
const MISNAMED_METRICS = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

/**
 * Interval at which the delay of the event loop is measured. The measured delay includes this interval. Each measurement
 * wakes up an idle process, so a shorter interval costs more CPU time.
 */
const EVENT_LOOP_INTERVAL_MS = 20;

let processMetrics: Metric[] | undefined;

/**
 * Creates a registry that contains the metrics of the process: CPU time, memory, file descriptors, event loop delay and
 * garbage collection. All registries of a process share these metrics.
 */
export function createRegistry(): Registry {
  const registry = new Registry();
  processMetrics ??= collectProcessMetrics();
  for (const metric of processMetrics) registry.registerMetric(metric);
  return registry;
}

function collectProcessMetrics(): Metric[] {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: EVENT_LOOP_INTERVAL_MS });
  for (const name of MISNAMED_METRICS) registry.removeSingleMetric(name);
  return registry.getMetricsAsArray() as unknown as Metric[];
}
