/** Follows the guide deploy/machines/README.md step by step. */
import { eventually } from "../../support/eventually.ts";
import { check } from "../report.ts";
import type { Administrator } from "./administrator.ts";
import type { Step } from "./guide.ts";
import { runOn } from "./machine.ts";

/**
 * Commands whose output must reach a state that the guide describes. They are repeated until then. `command` matches a
 * part of a step's script.
 */
const expectations: { command: string; isReached: (output: string) => boolean }[] = [
  {
    command: ":2113/gossip",
    isReached: (output) => countLines(output, /\tLeader\ttrue$/) === 1 && countLines(output, /\tFollower\ttrue$/) === 2,
  },
  {
    command: ":8222/jsz",
    isReached: (output) => /"leader": "[abc]\.example"/.test(output) && output.includes('"cluster_size": 3'),
  },
  { command: "pg_stat_replication", isReached: (output) => countLines(output, /\| streaming/) === 2 },
  { command: "/health/ready", isReached: () => true },
  { command: "probe_success", isReached: (output) => output === "" },
];

const countLines = (text: string, pattern: RegExp) => text.split("\n").filter((line) => pattern.test(line)).length;

/**
 * Time limit for each expected output. Prometheus shows targets of its former settings for five minutes. Milliseconds.
 */
const RESULT_TIMEOUT_MS = 480_000;

/**
 * Runs the steps and prints a line for each section. Stops at the first failed section.
 *
 * @returns false if a step failed
 */
export async function followGuide(steps: readonly Step[], administrator: Administrator): Promise<boolean> {
  for (const section of new Set(steps.map((step) => step.section))) {
    const passes = await check(`"${section}" as written`, async () => {
      for (const step of steps) if (step.section === section) await runStep(step, administrator);
    });
    if (!passes) return false;
  }
  return true;
}

/** Runs a step on each of its machines. If an output is expected, repeats the step until its output matches. */
export async function runStep({ machines, script }: Step, administrator: Administrator): Promise<void> {
  const expectation = expectations.find(({ command }) => script.includes(command));
  for (const machine of machines) {
    const runOnce = () => (machine === "administrator" ? administrator.run(script) : runOn(machine, script));
    if (!expectation) {
      await runOnce();
      continue;
    }
    let lastResult = "";
    const reach = async () => {
      lastResult = await runOnce().catch(String);
      return expectation.isReached(lastResult) && !lastResult.startsWith("Error: ");
    };
    await eventually(`the result of ${expectation.command}`, reach, RESULT_TIMEOUT_MS).catch((error: unknown) => {
      throw new Error(`${String(error)}; last result: ${lastResult}`);
    });
  }
}
