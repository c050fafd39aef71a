import type pg from "pg";
import { registerPoolMetrics, registerRateLimitMetrics } from "../shared/metrics/postgres-metrics.ts";
import { createRegistry } from "../shared/metrics/registry.ts";

/** Registers the metrics of the command service, except those of requests and of the event log. */
export function createMetrics(pool: pg.Pool) {
  const registry = createRegistry();
  registerPoolMetrics(registry, [pool]);
  return { registry, rateLimitEvents: registerRateLimitMetrics(registry) };
}
