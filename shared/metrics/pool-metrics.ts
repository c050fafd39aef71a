import type pg from "pg";
import { Gauge, type Registry } from "prom-client";

/** Registers the metrics of pools of connections to Postgres. The name of a pool is its application name. */
export function registerPoolMetrics(registry: Registry, pools: readonly pg.Pool[]): void {
  const registerGauge = <Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    readPool: (gauge: Gauge<Label | "pool">, poolName: string, pool: pg.Pool) => void,
  ) =>
    new Gauge({
      ...{ name, help, registers: [registry], labelNames: ["pool", ...labelNames] as const },
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
