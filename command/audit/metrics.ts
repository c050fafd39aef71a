import type pg from "pg";
import type { Registry } from "prom-client";
import { registerPoolMetrics } from "../../shared/metrics/pool-metrics.ts";
import { createRegistry } from "../../shared/metrics/registry.ts";

/** Registers the metrics of the audit service, except those of requests and of the event log. */
export function createMetrics(pool: pg.Pool): Registry {
  const registry = createRegistry();
  registerPoolMetrics(registry, [pool]);
  return registry;
}
