import { hostname } from "node:os";
import { readLogEnd } from "../../shared/eventstore/read-log.ts";
import { describeLogPosition } from "../../shared/eventstore/subscription.ts";
import type { Readiness } from "../../shared/http/health.ts";
import { STANDBY_DETAIL } from "../../shared/postgres/leadership.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { settlesWithin } from "../../shared/runtime/timeout.ts";
import type { LogAndDatabase } from "../checkpoints/same-log.ts";
import { readQuarantinedStreams } from "../quarantine/quarantined-streams.ts";
import { writeProcessStatus } from "../roles/process-status.ts";
import type { Role, RoleStatus } from "../roles/role.ts";
import { countDeliveries, findBlockingSessions, measureDeliveryDelays, measureTasks } from "./facts.ts";
import { LagMeter } from "./lag.ts";
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

const STATUS_INTERVAL_MS = 2_000;

const LAST_REPORT_TIMEOUT_MS = 1_000;

/**
 * Reports the status of the process's roles every two seconds. Updates the metrics, and writes to the database for the
 * operator's `status` command. A failed measurement or write affects neither the roles nor other measurements. The reporter
 * retries at the next report.
 *
 * @returns a function that reports the roles as stopped, and ends the reports
 */
export function startReporter(options: ReporterOptions): () => Promise<void> {
  const { roles, metrics, logger, clock = Date.now, processName = `${hostname()}:${process.pid}` } = options;
  const controller = new AbortController();
  const { signal } = controller;
  const lagMeters = roles.map((role) => ({ role, meter: new LagMeter(options.client) }));
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
    const at = clock();
    for (const { name, getStatus } of roles) setRoleGauges(metrics, name, getStatus());
    for (const { name: role, getStatus } of roles) {
      const { state, detail, lastError, failedAt } = getStatus();
      const report = {
        ...{ role, process: processName, lastError, failedAt, at, state, detail },
        // A failed role stays failed in the status, because stopping the process does not remove the cause.
        ...(isStopped && state !== "failed" && { state: "stopped" as const, detail: null }),
      };
      await runOrLogError(`status of ${role}`, () => writeProcessStatus(options.pool, report));
    }
  };
  const measureLag = async ({ name, getStatus }: Role, meter: LagMeter) => {
    const { position } = getStatus();
    if (position === undefined) {
      // Only the leader has a position. The lag from an earlier lead must not stay.
      metrics.lagEvents.remove({ role: name });
      metrics.lagSeconds.remove({ role: name });
      return;
    }
    const lag = await meter.measure(position, await readLogEnd(options.client), clock());
    metrics.lagEvents.set({ role: name }, lag.events);
    metrics.lagSeconds.set({ role: name }, lag.seconds);
  };
  const measureAll = async () => {
    for (const { role, meter } of lagMeters) await runOrLogError(`lag of ${role.name}`, () => measureLag(role, meter));
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
  return async () => {
    controller.abort();
    const lastReportPromise = reportPromise.then(() => reportStatuses(true));
    await settlesWithin(lastReportPromise, LAST_REPORT_TIMEOUT_MS);
  };
}

/** Measurements of the whole service, by name. `now` is in milliseconds since 1970. */
const MEASUREMENTS: Record<string, (options: ReporterOptions, now: number) => Promise<void>> = {
  async quarantine({ pool, metrics }) {
    const quarantined = [...(await readQuarantinedStreams(pool, READ_MODEL_SCHEMA)).values()];
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
  async "daily tasks"({ pool, metrics }) {
    for (const { task, seconds } of await measureTasks(pool)) {
      if (task === "archive") metrics.walArchived.set(seconds);
      else metrics.taskSuccess.set({ task }, seconds);
    }
  },
  async "numbers of deliveries"({ pool, metrics }, now) {
    for (const [state, count] of Object.entries(await countDeliveries(pool, now)))
      metrics.deliveries.set({ state }, count);
  },
  async "delays of deliveries"({ pool, metrics }, now) {
    for (const [endpoints, seconds] of Object.entries(await measureDeliveryDelays(pool, now)))
      metrics.oldestDueDelivery.set({ endpoints }, seconds);
  },
};

function setRoleGauges(metrics: Metrics, role: string, status: RoleStatus): void {
  const { state, detail, isLeader, position, eventCount } = status;
  if (eventCount !== undefined) {
    metrics.events.remove({ role });
    metrics.events.inc({ role }, eventCount);
  }
  if (position !== undefined) metrics.position.set({ role }, Number(position));
  metrics.leader.set({ role }, isLeader ? 1 : 0);
  metrics.waits.set({ role }, detail?.startsWith("waits") ? 1 : 0);
  metrics.failed.set({ role }, state === "failed" ? 1 : 0);
}

/**
 * Creates the check that reports the readiness of each role. A role is ready if it works without waiting, or if it is
 * on standby and can take over. A standby process of another release cannot take over, so its role is not ready. For a
 * role that is not ready, the report contains the reason. The report is public, so it contains no event data and no
 * error messages.
 */
export function createReadinessCheck(roles: readonly Role[]): Readiness {
  return async () => Object.fromEntries(roles.map(({ name, getStatus }) => [name, describeProblem(getStatus())]));
}

function describeProblem({ state, detail, failedAt }: RoleStatus): string | null {
  if (detail === STANDBY_DETAIL || (state === "running" && detail === null)) return null;
  if (state !== "failed") return detail ?? state;
  if (failedAt) return `stopped at ${describeLogPosition(failedAt)}, ${failedAt.type}`;
  return detail ? `stopped: ${detail}` : "stopped";
}
