/** Scenarios: processes are stopped, killed or blocked, and a daily task did not run. */
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../../../support/eventually.ts";
import { type ObservedStack, startObservedStack } from "../observed-stack.ts";
import { type Scenario, type ScenarioGroup, WINDOW_SECONDS } from "../scenario.ts";

const RESTART_COUNT = 3;

/** Durations for which a process is alternately suspended and running. Milliseconds. */
const [STOPPED_MS, RUNNING_MS] = [900, 300];

export const processGroup: ScenarioGroup = {
  alerts: [
    "ServiceDown",
    "ProcessDown",
    "ProjectionWithoutLeader",
    "ProcessRestarting",
    "EventLoopBlocked",
    "TaskOverdue",
  ],
  async start(prometheusProgram) {
    const observed = await startObservedStack(prometheusProgram);
    return {
      prometheus: observed.prometheus,
      scenarios: [
        stopService(observed),
        stopProjection(observed),
        restartCommand(observed),
        blockEventLoop(observed),
        delayTask(observed),
      ],
      stop: observed.stop,
    };
  },
};

function stopService({ components, urls }: ObservedStack): Scenario {
  return {
    cause: "The only process of audit was killed.",
    alerts: [
      { alert: "ServiceDown", labels: { job: "audit" } },
      { alert: "ProcessDown", labels: { job: "audit" } },
    ],
    create: () => components.audit.kill(),
    async followRunbook() {
      await requireNoResponse(`${urls.audit}/health/live`);
      await components.audit.start();
    },
  };
}

function stopProjection({ components, runClinic }: ObservedStack): Scenario {
  return {
    cause: "The only process of the projectors and the relay was killed.",
    alerts: [
      { alert: "ProjectionWithoutLeader", labels: { role: "projectors" } },
      { alert: "ProjectionWithoutLeader", labels: { role: "relay" } },
    ],
    create: () => components.projection.kill(),
    async followRunbook() {
      await requireStatus({ runClinic }, /no process is running; .* was last seen/);
      await components.projection.start();
    },
  };
}

function restartCommand({ components, prometheus }: ObservedStack): Scenario {
  const readStartTime = async () => (await prometheus.query('process_start_time_seconds{job="command"}'))[0];
  return {
    cause: `The process of command was killed and started ${RESTART_COUNT} times.`,
    alerts: [{ alert: "ProcessRestarting", labels: { job: "command" }, clearSeconds: WINDOW_SECONDS }],
    async create() {
      for (let restarts = 0; restarts < RESTART_COUNT; restarts += 1) {
        const startTime = await readStartTime();
        await components.command.kill();
        await components.command.start();
        await eventually("a scrape of the new process", async () => {
          const newTime = await readStartTime();
          return newTime !== undefined && newTime !== startTime;
        });
      }
    },
    // The log shows no reason, as after a kill by the system. The process runs again.
    followRunbook: async () => undefined,
  };
}

function blockEventLoop({ components, prometheus }: ObservedStack): Scenario {
  let isOver = false;
  const pid = () => components.queryApi.pid as number;
  const interrupt = async () => {
    while (!isOver) {
      process.kill(pid(), "SIGSTOP");
      await delay(STOPPED_MS);
      process.kill(pid(), "SIGCONT");
      await delay(RUNNING_MS);
    }
  };
  return {
    cause: "SIGSTOP took the processor from query-api for three quarters of the time.",
    alerts: [{ alert: "EventLoopBlocked", labels: { job: "query-api" } }],
    create: async () => void interrupt(),
    async followRunbook() {
      const [cpuShare = 1] = await prometheus.query('rate(process_cpu_seconds_total{job="query-api"}[1m])');
      if (cpuShare > 0.5) throw new Error(`the process uses ${cpuShare} of a core`);
      isOver = true;
    },
  };
}

function delayTask({ query, runClinic }: ObservedStack): Scenario {
  const AGE = "27 hours";
  return {
    cause: `The last success of the task was set back by ${AGE}.`,
    alerts: [
      { alert: "TaskOverdue", labels: { task: "retention" } },
      { alert: "TaskOverdue", labels: { task: "backup" } },
    ],
    create: async () =>
      void (await query(`UPDATE projection.task_success SET succeeded_at = now() - interval '${AGE}'`)),
    async followRunbook() {
      await runClinic("retention", "apply");
      // The last command of a backup, see docs/operations/backup.md.
      await query("UPDATE projection.task_success SET succeeded_at = now() WHERE task = 'backup'");
    },
  };
}

/** Waits until the output of `clinic projection status` matches. Retries, because a busy machine can cause timeouts. */
export async function requireStatus({ runClinic }: Pick<ObservedStack, "runClinic">, pattern: RegExp): Promise<void> {
  await eventually(`a status like ${pattern}`, async () =>
    pattern.test(await runClinic("projection", "status").catch((error: Error) => error.message)),
  );
}

export async function requireNoResponse(url: string): Promise<void> {
  const response = await fetch(url).catch(() => undefined);
  if (response) throw new Error(`${url} responds with ${response.status}`);
}

export function requireText(text: string, pattern: RegExp): void {
  if (!pattern.test(text)) throw new Error(`does not match ${pattern}: ${text}`);
}

/** Checks the status and the text of `/health/ready`. */
export async function requireNotReady(url: string, pattern: RegExp): Promise<void> {
  const response = await fetch(`${url}/health/ready`);
  requireText(`${response.status} ${await response.text()}`, pattern);
}
