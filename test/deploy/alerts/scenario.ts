/** Runs a scenario: causes the conditions of alerts, and then follows the runbook. */
import { setTimeout as delay } from "node:timers/promises";
import type { Alert, Prometheus } from "./prometheus.ts";
import { holdSeconds, shorten } from "./rules.ts";

export interface ExpectedAlert {
  alert: string;
  /** Labels that the alert must have. */
  labels?: Record<string, string>;
  /** Time from `create` until the condition holds, without scrape intervals. Seconds. */
  delaySeconds?: number;
  /** Time from the end of `followRunbook` until the alert clears, without scrape intervals. Seconds. */
  clearSeconds?: number;
}

export interface Scenario {
  /** Sentence for the report that describes the condition which `create` causes. */
  cause: string;
  alerts: ExpectedAlert[];
  create(): Promise<void>;
  /** Checks the symptoms that the runbook describes, and performs its steps. Called when the alerts have fired. */
  followRunbook(): Promise<void>;
}

/** Scenarios that run concurrently on the same stack. */
export interface ScenarioGroup {
  /** Names of all alerts of the scenarios. */
  alerts: string[];
  /** Names of programs that the group needs besides Prometheus. */
  programs?: string[];
  start(prometheusProgram: string): Promise<{ prometheus: Prometheus; scenarios: Scenario[]; stop(): Promise<void> }>;
}

/** Result of one alert in a scenario. */
export interface Result {
  alert: string;
  cause: string;
  /** Undefined if the alert fired and cleared in time. */
  failure: string | undefined;
  times: string;
}

/** Extra time for scrapes, evaluations and slow machines. Seconds. */
const SLACK_SECONDS = 60;

const POLL_INTERVAL_MS = 1_000;

/** Longest window of a rate after the limit of ALERTS_LONGEST. Seconds. */
export const WINDOW_SECONDS = shorten(15 * 60);

/** Runs a scenario. Returns a result for each alert after all of them have cleared or failed. */
export async function runScenario(prometheus: Prometheus, scenario: Scenario): Promise<Result[]> {
  const { cause } = scenario;
  const now = () => performance.now() / 1_000;
  try {
    for (const expected of scenario.alerts)
      await waitForState(prometheus, expected, "inactive", now() + WINDOW_SECONDS + SLACK_SECONDS);
    await scenario.create();
  } catch (error) {
    return scenario.alerts.map(({ alert }) => ({ alert, cause, failure: toMessage(error), times: "" }));
  }
  const createdAt = now();
  const firings = await Promise.all(scenario.alerts.map((expected) => awaitFiring(prometheus, expected, createdAt)));
  const runbookFailure = await scenario.followRunbook().then(() => undefined, toMessage);
  const repairedAt = now();
  return Promise.all(
    scenario.alerts.map(async (expected, index) => {
      const { failure, times } = firings[index]!;
      const { alert, clearSeconds = 0 } = expected;
      const deadline = repairedAt + clearSeconds + SLACK_SECONDS;
      const clearFailure = await waitForState(prometheus, expected, "inactive", deadline).then(
        () => undefined,
        toMessage,
      );
      const clearTime = `cleared after ${Math.round(now() - repairedAt)} s`;
      return {
        alert,
        cause,
        failure: failure ?? (runbookFailure && `runbook: ${runbookFailure}`) ?? clearFailure,
        times: `${times}, ${clearTime}`,
      };
    }),
  );
}

/** Waits until the alert fires. If its rule has `for`, first waits until the alert is pending. */
async function awaitFiring(prometheus: Prometheus, expected: ExpectedAlert, createdAt: number) {
  const { alert, delaySeconds = 0 } = expected;
  const hold = holdSeconds.get(alert) ?? 0;
  const since = () => Math.round(performance.now() / 1_000 - createdAt);
  const pendingDeadline = createdAt + delaySeconds + SLACK_SECONDS;
  let pendingText = "";
  try {
    if (hold > 0) {
      await waitForState(prometheus, expected, "pending", pendingDeadline);
      pendingText = `pending after ${since()} s, `;
    }
    await waitForState(prometheus, expected, "firing", pendingDeadline + hold);
    return { times: `${pendingText}fired after ${since()} s` };
  } catch (error) {
    return { failure: toMessage(error), times: `${pendingText}not fired` };
  }
}

/** @param deadline seconds, on the clock of `performance.now()` */
async function waitForState(
  prometheus: Prometheus,
  { alert, labels = {} }: ExpectedAlert,
  wantedState: Alert["state"] | "inactive",
  deadline: number,
): Promise<void> {
  const matches = (candidate: Alert) =>
    candidate.labels.alertname === alert &&
    Object.entries(labels).every(([name, value]) => candidate.labels[name] === value);
  for (;;) {
    const states = (await prometheus.listAlerts()).filter(matches).map(({ state }) => state);
    // A fast condition may already fire at the first check.
    if (wantedState === "inactive" ? states.length === 0 : states.includes(wantedState) || states.includes("firing"))
      return;
    if (performance.now() / 1_000 > deadline)
      throw new Error(`${alert} is ${states.join() || "inactive"}, but should be ${wantedState}`);
    await delay(POLL_INTERVAL_MS);
  }
}

const toMessage = (error: unknown): string => (error instanceof Error ? error.message : String(error));
