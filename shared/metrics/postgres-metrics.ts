import type pg from "pg";
import { Counter, Gauge, type Registry } from "prom-client";
import type { ReportMissingKeys } from "../personal-data/create-data-keys.ts";
import type { RateLimitEvents } from "../rate-limit/limiter.ts";
import type { Logger } from "../runtime/logger.ts";

/** Registers the metrics of connection pools to Postgres. The name of a pool is its application name. */
export function registerPoolMetrics(registry: Registry, pools: readonly pg.Pool[]): void {
  const registerGauge = <Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    readPool: (gauge: Gauge<Label | "pool">, poolName: string, pool: pg.Pool) => void,
  ) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      labelNames: ["pool", ...labelNames] as const,
      collect() {
        for (const pool of pools) readPool(this, pool.options.application_name ?? "unnamed", pool);
      },
    });
  registerGauge(
    "postgres_pool_connections",
    "Open connections of a pool by state: busy or idle.",
    ["state"],
    (gauge, poolName, { totalCount, idleCount }) => {
      gauge.set({ pool: poolName, state: "idle" }, idleCount);
      gauge.set({ pool: poolName, state: "busy" }, totalCount - idleCount);
    },
  );
  registerGauge(
    "postgres_pool_max_connections",
    "Maximum number of connections of a pool.",
    [],
    (gauge, poolName, { options }) => gauge.set({ pool: poolName }, options.max),
  );
  registerGauge(
    "postgres_pool_waiting_requests",
    "Statements and transactions that wait for a connection of a pool.",
    [],
    (gauge, poolName, { waitingCount }) => gauge.set({ pool: poolName }, waitingCount),
  );
}

/** Names of the limits that {@link registerRateLimitMetrics} reports even before the first refusal. */
const LIMITS = ["installation", "address", "refused", "reset", "token"];

/** Registers the metrics of a rate limiter, and returns the functions that update them. */
export function registerRateLimitMetrics(registry: Registry): RateLimitEvents {
  const registers = [registry];
  const refusals = new Counter({
    name: "rate_limit_refusals_total",
    help: "Requests that exceeded a rate limit, by limit.",
    labelNames: ["limit"] as const,
    registers,
  });
  for (const limit of LIMITS) refusals.inc({ limit }, 0);
  const fallbacks = new Counter({
    name: "rate_limit_fallbacks_total",
    help: "Requests that were counted only in this process, because Postgres was unavailable.",
    registers,
  });
  return {
    onRefusal: (limit) => refusals.inc({ limit }),
    onFallback: () => fallbacks.inc(),
  };
}

/** Registers the metric of missing data keys, and returns the function that counts and logs them. */
export function createMissingKeyReporter(registry: Registry, logger: Logger): ReportMissingKeys {
  const missingKeys = new Counter({
    name: "data_keys_missing_total",
    help: "Data keys that events name, but that the database does not contain. Counted at each search.",
    registers: [registry],
  });
  return (ids) => {
    missingKeys.inc(ids.length);
    logger.warn(
      { count: ids.length, firstId: ids[0] },
      "data keys are missing in the database, so their personal data is shown as erased; restore the data keys",
    );
  };
}
