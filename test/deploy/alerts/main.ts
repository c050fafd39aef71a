/**
 * `npm run test:alerts`: causes the condition of each alert on a local stack with a real Prometheus. Checks that the
 * alert becomes pending, fires in time, and clears after the steps of its runbook.
 *
 *     npm run test:alerts                            all alerts
 *     npm run test:alerts -- ServiceDown TaskOverdue   some alerts
 *
 * Prints one line for each alert: `ok`, `FAIL` or `not run`. ALERTS_STACKS is the number of concurrent stacks (default:
 * 3). For ALERTS_LONGEST, see `rules.ts`.
 */
import { ensureBuilt } from "../../../deploy/local/setup/build.mjs";
import { PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { findOnPath } from "../../../deploy/local/setup/system-package.ts";
import { mochaGlobalTeardown } from "../../support/stack.ts";
import { holdSeconds } from "./rules.ts";
import { type Result, runScenario, type ScenarioGroup } from "./scenario.ts";
import { certificateGroup } from "./scenarios/certificate.ts";
import { dataKeyGroup } from "./scenarios/data-keys.ts";
import { eventLogGroup } from "./scenarios/event-log.ts";
import { faultyReleaseGroup } from "./scenarios/faulty-release.ts";
import { longStreamGroup } from "./scenarios/long-stream.ts";
import { lockGroup, postgresGroup } from "./scenarios/postgres.ts";
import { processGroup } from "./scenarios/processes.ts";
import { dispatcherGroup, proxyGroup, receiverGroup } from "./scenarios/webhooks.ts";

/** Slow groups come first, so that concurrent stacks end at about the same time. */
const groups: ScenarioGroup[] = [
  dispatcherGroup,
  lockGroup,
  processGroup,
  eventLogGroup,
  postgresGroup,
  receiverGroup,
  proxyGroup,
  certificateGroup,
  faultyReleaseGroup,
  dataKeyGroup,
  longStreamGroup,
];

const STACK_COUNT = Number(process.env.ALERTS_STACKS ?? 3);

const chosenNames = process.argv.slice(2);
const unknownNames = chosenNames.filter((name) => !holdSeconds.has(name));
if (unknownNames.length > 0) {
  process.stderr.write(`Unknown alert: ${unknownNames.join(", ")}.\n`);
  process.exit(2);
}
const isChosen = (name: string) => chosenNames.length === 0 || chosenNames.includes(name);
const testedNames = new Set<string>();
const queue = groups.filter(({ alerts }) => alerts.some(isChosen));
process.env.PROJECT_BUILD = await ensureBuilt(PROJECT_FOLDER);
await Promise.all(Array.from({ length: STACK_COUNT }, runQueue));
for (const name of holdSeconds.keys())
  if (isChosen(name) && !testedNames.has(name)) print("not run", name, "no scenario causes it");
await mochaGlobalTeardown();
process.exit();

async function runQueue(): Promise<void> {
  for (let group = queue.shift(); group; group = queue.shift()) await runGroup(group);
}

async function runGroup(group: ScenarioGroup): Promise<void> {
  for (const name of group.alerts) testedNames.add(name);
  const missingProgram = ["prometheus", ...(group.programs ?? [])].find((program) => !findOnPath(program));
  const printAll = (state: string, text: string) => {
    for (const name of group.alerts.filter(isChosen)) print(state, name, text);
  };
  if (missingProgram) return printAll("not run", `${missingProgram} is not on the PATH`);
  try {
    const setup = await group.start(findOnPath("prometheus") as string);
    const chosenScenarios = setup.scenarios.filter(({ alerts }) => alerts.some(({ alert }) => isChosen(alert)));
    await Promise.all(
      chosenScenarios.map(async (scenario) => (await runScenario(setup.prometheus, scenario)).forEach(printResult)),
    );
    await setup.stop();
  } catch (error) {
    process.exitCode = 1;
    printAll("FAIL", (error as Error).stack ?? String(error));
  }
}

function printResult({ alert, cause, failure, times }: Result): void {
  if (failure) process.exitCode = 1;
  print(failure ? "FAIL" : "ok", alert, [cause, times, failure].filter(Boolean).join(" | "));
}

function print(state: string, name: string, text: string): void {
  process.stdout.write(`${state.padEnd(8)} ${name.padEnd(26)} ${text}\n`);
}
