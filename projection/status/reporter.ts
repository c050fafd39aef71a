import { hostname } from "node:os";
import { readLogEnd } from "../../shared/eventstore/read-log.ts";
import { describeLogPosition, type LogPosition } from "../../shared/eventstore/subscription.ts";
import type { Readiness } from "../../shared/http/health.ts";
import { STANDBY_DETAIL } from "../../shared/postgres/leadership.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { settlesWithin } from "../../shared/runtime/timeout.ts";
import type { LogAndDatabase } from "../checkpoints/same-log.ts";
import { type ProcessStatus, writeProcessStatus } from "../roles/process-status.ts";
import type { Detail, Role, RoleStatus } from "../roles/role.ts";
import { findBlockingSessions, listQuarantinedStreams } from "./find-status.ts";
import { formatLag, type Lag, LagMeter } from "./lag.ts";
import { countDeliveries, measureDeliveryDelays } from "./measure-deliveries.ts";
import type { Metrics } from "./metrics.ts";

interface ReporterOptions extends LogAndDatabase {
  roles: readonly Role[];
  metrics: Metrics;
  logger: Logger;
  /** Name of the process. Default: host name and process id. */
  processName?: string;
  /** Milliseconds since 1970. */
  clock?: () => number;
}

export interface Reporter {
  getLag(role: string): Lag | undefined;
  stop(): Promise<void>;
}

const STATUS_INTERVAL_MS = 2_000;

const LAST_REPORT_TIMEOUT_MS = 1_000;

/**
 * Reports the status of the process's roles every two seconds. Updates the metrics, and writes to the database for the
 * operator's `status` command. A failed measurement or write affects neither the roles nor other measurements. The reporter
 * retries at the next report.
 */
export function startReporter(options: ReporterOptions): Reporter {
  const { roles, metrics, logger, clock = Date.now } = options;
  const controller = new AbortController();
  const { signal } = controller;
  const lagsByRole = new Map<string, Lag>();
  const lagMeters = new Map<string, LagMeter>(roles.map(({ name }) => [name, new LagMeter(options.client)]));
  const measureRate = createRateMeter(metrics);
  const failingSteps = new Set<string>();
  const runOrLogError = async (step: string, run: () => Promise<void>) => {
    try {
      await run();
      if (failingSteps.delete(step)) logger.info({ step }, "A step of the status report works again.");
    } catch (error) {
      if (failingSteps.has(step)) return;
      failingSteps.add(step);
      logger.warn({ error, step }, "A step of the status report fails. This will be retried.");
    }
  };
  const reportStatuses = async (isStopped: boolean) => {
    const now = clock();
    const statuses = roles.map(({ name, getStatus }) => {
      const roleStatus = getStatus();
      setRoleGauges(metrics, name, roleStatus);
      return toProcessStatus(options, name, roleStatus, measureRate(name, roleStatus, now), isStopped, now);
    });
    for (const status of statuses)
      await runOrLogError(`status of ${status.role}`, () => writeProcessStatus(options.pool, status));
  };
  const measureLag = async ({ name, getStatus }: Role, meter: LagMeter) => {
    const { position } = getStatus();
    if (position === undefined) {
      // Only the leader has a position. The lag from an earlier lead must not stay.
      lagsByRole.delete(name);
      metrics.lagEvents.remove({ role: name });
      metrics.lagSeconds.remove({ role: name });
      return;
    }
    const lag = await meter.measure(position, await readLogEnd(options.client), clock());
    lagsByRole.set(name, lag);
    metrics.lagEvents.set({ role: name }, lag.events);
    metrics.lagSeconds.set({ role: name }, lag.seconds);
  };
  const measureAll = async () => {
    for (const role of roles) {
      const meter = lagMeters.get(role.name);
      if (meter) await runOrLogError(`lag of ${role.name}`, () => measureLag(role, meter));
    }
    for (const [step, measure] of Object.entries(MEASUREMENTS))
      await runOrLogError(step, () => measure(options, clock()));
  };
  const reportPromise = (async () => {
    while (!signal.aborted) {
      await reportStatuses(false);
      await measureAll();
      await pause(STATUS_INTERVAL_MS, signal);
    }
  })();
  return {
    getLag: (role) => lagsByRole.get(role),
    async stop() {
      controller.abort();
      const lastReportPromise = reportPromise.then(() => reportStatuses(true));
      await settlesWithin(lastReportPromise, LAST_REPORT_TIMEOUT_MS);
    },
  };
}

/**
 * Creates a function that counts the events of a role. The function returns the events per second since the previous
 * call. At the first call, and for a role that reads no events, the function returns null.
 */
function createRateMeter(metrics: Metrics) {
  const countsByRole = new Map<string, { eventCount: number; at: number }>();
  return (role: string, { eventCount }: RoleStatus, now: number): number | null => {
    if (eventCount === undefined) return null;
    const countBefore = countsByRole.get(role) ?? { eventCount: 0, at: now };
    countsByRole.set(role, { eventCount, at: now });
    metrics.events.inc({ role }, eventCount - countBefore.eventCount);
    return now > countBefore.at ? ((eventCount - countBefore.eventCount) * 1000) / (now - countBefore.at) : null;
  };
}

type MetricsDeps = Pick<ReporterOptions, "pool" | "metrics">;

/** Measurements of the whole service, each with the time in milliseconds since 1970. */
const MEASUREMENTS: Record<string, (options: ReporterOptions, now: number) => Promise<void>> = {
  async quarantine({ client, pool, metrics }) {
    const quarantined = await listQuarantinedStreams(client, pool);
    metrics.quarantinedStreams.set(quarantined.length);
    metrics.quarantinedEvents.set(Number(quarantined.reduce((sum, { events }) => sum + events, 0n)));
  },
  async "blocking sessions"({ pool, metrics }) {
    const sessions = await findBlockingSessions(pool);
    metrics.blockingSessions.reset();
    // Prometheus equates an empty label with an absent one. Without this sample, nobody could tell none from not measured.
    metrics.blockingSessions.set({ user: "" }, 0);
    for (const { user } of sessions) metrics.blockingSessions.inc({ user });
  },
  "daily tasks": measureTasks,
  async "numbers of deliveries"({ pool, metrics }, now) {
    for (const [state, count] of Object.entries(await countDeliveries(pool, now)))
      metrics.deliveries.set({ state }, count);
  },
  async "delays of deliveries"({ pool, metrics }, now) {
    for (const [endpoints, seconds] of Object.entries(await measureDeliveryDelays(pool, now)))
      metrics.oldestDueDelivery.set({ endpoints }, seconds);
  },
};

export async function measureTasks({ pool, metrics }: MetricsDeps): Promise<void> {
  const { rows } = await pool.query<{ task: string; seconds: number }>(MEASURE_TASKS_STATEMENT);
  for (const { task, seconds } of rows) {
    if (task === "archive") metrics.walArchived.set(seconds);
    else metrics.taskSuccess.set({ task }, seconds);
  }
}

/**
 * Without `archive_timeout`, a WAL segment can wait for hours. In this case, archiving counts as stopped only after a
 * failed attempt.
 */
const MEASURE_TASKS_STATEMENT = {
  name: "daily tasks",
  text: `
    SELECT task, extract(epoch FROM succeeded_at)::float8 AS seconds FROM projection.task_success
    UNION ALL
    SELECT 'archive', CASE WHEN current_setting('archive_mode') = 'off' THEN 0
        WHEN current_setting('archive_timeout') <> '0' OR last_failed_time > coalesce(last_archived_time, '-infinity')
        THEN extract(epoch FROM coalesce(last_archived_time, stats_reset))::float8
        ELSE extract(epoch FROM now())::float8 END
      FROM pg_stat_archiver`,
};

function setRoleGauges(metrics: Metrics, role: string, status: RoleStatus): void {
  const { state, detail, isLeader, position } = status;
  if (position !== undefined) metrics.position.set({ role }, Number(position));
  if (isLeader !== undefined) metrics.leader.set({ role }, isLeader ? 1 : 0);
  metrics.waits.set({ role }, detail?.startsWith("waits") ? 1 : 0);
  metrics.failed.set({ role }, state === "failed" ? 1 : 0);
}

function toProcessStatus(
  { processName = `${hostname()}:${process.pid}` }: ReporterOptions,
  role: string,
  { state, detail, position, lastError, failedAt }: RoleStatus,
  eventsPerSecond: number | null,
  isStopped: boolean,
  at: number,
): ProcessStatus {
  return {
    role,
    process: processName,
    // A failed role stays failed in the status, because stopping the process does not remove the cause.
    state: isStopped && state !== "failed" ? "stopped" : state,
    detail: isStopped && state !== "failed" ? null : detail,
    position: position ?? null,
    eventsPerSecond,
    lastError: lastError ?? null,
    failedAt: failedAt ?? null,
    at,
  };
}

/**
 * Creates the check that reports the readiness of each role. A role is ready if it works without waiting, or if it is
 * on standby and can take over. A standby process of another release cannot take over, so its role is not ready. For a
 * role that is not ready, the report contains the reason and the lag. The report is public, so it contains no event
 * data and no error messages.
 */
export function createReadinessCheck(roles: readonly Role[], reporter: Reporter): Readiness {
  return async () => Object.fromEntries(roles.map((role) => [role.name, describeProblem(role, reporter)]));
}

function describeProblem(role: Role, reporter: Reporter): string | null {
  const { state, detail, failedAt } = role.getStatus();
  if (detail === STANDBY_DETAIL || (state === "running" && detail === null)) return null;
  const reason = state === "failed" ? describeStop(failedAt, detail) : (detail ?? state);
  const lag = reporter.getLag(role.name);
  return [reason, (lag && formatLag(lag)) ?? []].flat().join("; ");
}

function describeStop(failedAt: LogPosition | undefined, detail: Detail | null): string {
  if (failedAt) return `stopped at ${describeLogPosition(failedAt)}, ${failedAt.type}`;
  return detail ? `stopped: ${detail}` : "stopped";
}
