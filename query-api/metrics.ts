import type pg from "pg";
import { registerPoolMetrics, registerRateLimitMetrics } from "../shared/metrics/postgres-metrics.ts";
import { createRegistry } from "../shared/metrics/registry.ts";

export function createMetrics(pools: readonly pg.Pool[]) {
  const registry = createRegistry();
  registerPoolMetrics(registry, pools);
  return { registry, rateLimitEvents: registerRateLimitMetrics(registry) };
}
