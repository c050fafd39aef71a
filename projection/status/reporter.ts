import { hostname } from "node:os";
import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { settlesWithin } from "../../shared/runtime/timeout.ts";
import { READ_MODEL_SCHEMA } from "../checkpoints/checkpoint.ts";
import { logEnd } from "../checkpoints/log-end.ts";
import { readParked } from "../parking/parked-streams.ts";
import { readSkipped } from "../parking/skipped-events.ts";
import { type ProcessStatus, writeProcessStatus } from "../roles/process-status.ts";
import type { Role, RoleStatus } from "../roles/role.ts";
import { countDeliveries } from "./count-deliveries.ts";
import { isFollower, type Lag, lagBehind } from "./lag.ts";
import type { Metrics } from "./metrics.ts";

export interface ReporterOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  roles: readonly Role[];
  metrics: Metrics;
  logger: Logger;
  /** Name of the process. Host name and process id if absent. */
  process?: string;
  /** Milliseconds since 1970. */
  clock?: () => number;
}

export interface Reporter {
  /** Returns the last measured lag of a role. */
  lagOf(role: string): Lag | undefined;
  stop(): Promise<void>;
}

const REPORT_INTERVAL_MS = 2_000;

/** Time limit for the last report, at a stop. Milliseconds. */
const LAST_REPORT_TIMEOUT_MS = 1_000;

/**
 * Reports the status of the process's roles every two seconds: in the database for the operator's status, and as metrics.
 * It never disturbs the roles. If it cannot measure or write something, it tries again at the next report.
 */
export function startReporter(options: ReporterOptions): Reporter {
  const { roles, metrics, logger, clock = Date.now } = options;
  const ended = new AbortController();
  const { signal } = ended;
  const lags = new Map<string, Lag>();
  const rateOf = createRates(metrics);
  const orLogged = async (work: () => Promise<void>) => {
    try {
      await work();
    } catch (error) {
      logger.debug({ error }, "The status could not be reported.");
    }
  };
  const report = async (stopped: boolean) => {
    const now = clock();
    const statuses = roles.map(({ name, status }) => {
      const is = status();
      setGauges(metrics, name, is);
      return toProcessStatus(options, name, is, rateOf(name, is, now), stopped, now);
    });
    for (const status of statuses) await orLogged(() => writeProcessStatus(options.pool, status));
  };
  const done = (async () => {
    while (!signal.aborted) {
      await report(false);
      await orLogged(() => measure(options, lags, clock()));
      await pause(REPORT_INTERVAL_MS, signal);
    }
  })();
  return {
    lagOf: (role) => lags.get(role),
    async stop() {
      ended.abort();
      const lastReport = done.then(() => report(true));
      await settlesWithin(lastReport, LAST_REPORT_TIMEOUT_MS);
    },
  };
}

/** Creates a function that counts the events of a role and returns its rate since the last call, in events per second. */
function createRates(metrics: Metrics) {
  const counted = new Map<string, { events: number; at: number }>();
  return (role: string, { events }: RoleStatus, now: number): number | null => {
    if (events === undefined) return null;
    const before = counted.get(role) ?? { events: 0, at: now };
    counted.set(role, { events, at: now });
    metrics.events.inc({ role }, events - before.events);
    return now > before.at ? ((events - before.events) * 1000) / (now - before.at) : null;
  };
}

/** Measures everything that needs log or database. */
async function measure(
  { client, pool, roles, metrics }: ReporterOptions,
  lags: Map<string, Lag>,
  now: number,
): Promise<void> {
  const end = await logEnd(client);
  for (const { name, status } of roles) {
    const { position } = status();
    if (position === undefined || !isFollower(name)) continue;
    const lag = await lagBehind(client, name, position, end, now);
    lags.set(name, lag);
    metrics.lagEvents.set({ role: name }, lag.events);
    metrics.lagSeconds.set({ role: name }, lag.seconds);
  }
  const { streams, relayOnly } = await readParked(createEventLog(client));
  metrics.parkedStreams.set(new Set([...streams.keys(), ...relayOnly.keys()]).size);
  const skipped = [...(await readSkipped(pool, READ_MODEL_SCHEMA)).values()];
  metrics.parkedEvents.set(Number(skipped.reduce((sum, { events }) => sum + events, 0n)));
  const deliveries = await countDeliveries(pool, now);
  for (const [state, count] of Object.entries(deliveries)) metrics.deliveries.set({ state }, count);
}

function setGauges(metrics: Metrics, role: string, { state, detail, leads, position }: RoleStatus): void {
  if (position !== undefined) metrics.position.set({ role }, Number(position));
  if (leads !== undefined) metrics.leader.set({ role }, leads ? 1 : 0);
  metrics.waits.set({ role }, detail?.startsWith("waits") ? 1 : 0);
  metrics.failed.set({ role }, state === "failed" ? 1 : 0);
}

function toProcessStatus(
  { process: name = `${hostname()}:${process.pid}` }: ReporterOptions,
  role: string,
  { state, detail, position, lastError, failedAt }: RoleStatus,
  eventsPerSecond: number | null,
  stopped: boolean,
  at: number,
): ProcessStatus {
  return {
    role,
    process: name,
    // A failed role stays failed in the status: stopping the process does not remove the cause.
    state: stopped && state !== "failed" ? "stopped" : state,
    detail: stopped && state !== "failed" ? null : detail,
    position: position ?? null,
    eventsPerSecond,
    lastError: lastError ?? null,
    failedAt: failedAt ?? null,
    at,
  };
}
