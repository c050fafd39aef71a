/** `npm test`: checks types and style, then runs mocha with its arguments. The last line is `N passed, N failed`. */
import { type ChildProcess, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { findNatsServer } from "../deploy/local/servers/nats.ts";
import { linkAssets } from "../deploy/local/setup/build.mjs";
import { withDeathSignal } from "../deploy/local/setup/death-signal.mjs";
import { PROJECT_FOLDER } from "../deploy/local/setup/project.ts";
import { runEntry } from "../deploy/local/setup/setup-error.ts";
import { findChromium } from "./support/chromium.ts";
import { splitFiles } from "./support/split-files.ts";

const bin = (name: string) => path.join(PROJECT_FOLDER, "node_modules", ".bin", name);

/**
 * Number of mocha processes. Exceeds the number of cores by one, because many tests wait for servers, but is at most 3.
 */
const MOCHA_PROCESSES = Math.min(2, os.availableParallelism()) + 1;

/**
 * Defines a mocha process. Its output goes to the terminal, or to a file that is printed when all processes have ended.
 */
interface MochaRun {
  words: string[];
  summary: string;
  output?: string;
}

await runEntry(async () => {
  // Missing programs are installed before the tests, because an installation exceeds the time limit of a test.
  if (!process.env.NATS_URL) await findNatsServer((line) => console.log(line));
  await findChromium((line) => console.log(line));
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), "test-run-"));
  const build = path.join(scratch, "build");
  process.env.PROJECT_BUILD = build;
  const runs = planRuns(process.argv.slice(2), scratch);
  const codes = [
    await step(
      "types",
      () => [start(bin("tsc"), ["--outDir", build])],
      () => linkBuild(build),
    ),
    await step("lint", () => [start(bin("biome"), ["check", "."])]),
    await step(
      "tests",
      () => runs.map(startMocha),
      () => printOutput(runs),
    ),
  ];
  console.log(summarize(runs));
  fs.rmSync(scratch, { recursive: true });
  process.exitCode = codes.find((code) => code !== 0) ?? 0;
});

/** Links everything that the compiled code needs outside the project's folder. */
function linkBuild(build: string): void {
  linkAssets(PROJECT_FOLDER, build);
  for (const name of ["node_modules", "package.json"])
    fs.symlinkSync(path.join(PROJECT_FOLDER, name), path.join(build, name));
}

/** Returns one mocha process with the given arguments. Without arguments, splits all tests among several processes. */
function planRuns(args: string[], scratch: string): MochaRun[] {
  const file = (kind: string, index: number) => path.join(scratch, `${kind}-${index}`);
  if (args.length > 0) {
    const files = args.some((word) => word.includes("test/")) ? [] : ["test/**/*.test.ts"];
    return [{ words: [...args, ...files], summary: file("summary", 0) }];
  }
  const files = fs
    .readdirSync(path.join(PROJECT_FOLDER, "test"), { recursive: true, encoding: "utf8" })
    .flatMap((name) => (name.endsWith(".test.ts") ? [path.join(PROJECT_FOLDER, "test", name)] : []));
  return splitFiles(files, MOCHA_PROCESSES).map((words, index) => ({
    words,
    summary: file("summary", index),
    ...(index > 0 && { output: file("output", index) }),
  }));
}

function startMocha({ words, summary, output }: MochaRun): ChildProcess {
  const strict = process.env.CI ? ["--forbid-only"] : [];
  return start(bin("mocha"), [...strict, ...words], { TEST_SUMMARY: summary }, output);
}

function start(command: string, args: string[], env: NodeJS.ProcessEnv = {}, output?: string): ChildProcess {
  const commandLine = withDeathSignal("SIGTERM", command, args);
  const into = output === undefined ? "inherit" : fs.openSync(output, "w");
  const child = spawn(...commandLine, {
    cwd: PROJECT_FOLDER,
    stdio: ["inherit", into, into],
    env: { ...process.env, ...env },
  });
  if (into !== "inherit") fs.closeSync(into);
  return child;
}

/** Runs one step and returns its exit code. A signal ends the step and the whole run. */
async function step(
  name: string,
  startProcesses: () => ChildProcess[],
  finish: () => void = () => undefined,
): Promise<number> {
  const startedAt = Date.now();
  console.log(`== ${name}`);
  const children = startProcesses();
  const ended = Promise.all(children.map(exitCode));
  const forward = (signal: NodeJS.Signals) => {
    for (const child of children) child.kill(signal);
    ended.finally(() => process.exit(130));
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, forward);
  const code = (await ended).find((code) => code !== 0) ?? 0;
  for (const signal of signals) process.off(signal, forward);
  finish();
  const took = ((Date.now() - startedAt) / 1000).toFixed(1);
  console.log(`== ${name}: ${code === 0 ? "passed" : "FAILED"} (${took} s)`);
  return code;
}

function exitCode(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (status) => resolve(status ?? 1));
  });
}

function printOutput(runs: readonly MochaRun[]): void {
  for (const { output } of runs) if (output !== undefined) fs.writeSync(1, fs.readFileSync(output));
}

/** Adds up the summaries of the mocha processes. A process without a summary counts as one failed test. */
function summarize(runs: readonly MochaRun[]): string {
  const counts: Record<string, number> = { passed: 0, failed: 0 };
  for (const { summary } of runs) {
    const line = fs.existsSync(summary) ? fs.readFileSync(summary, "utf8") : "1 failed";
    for (const [, count, what = ""] of line.matchAll(/(\d+) (\w+)/g)) {
      counts[what] = (counts[what] ?? 0) + Number(count);
    }
  }
  return Object.entries(counts)
    .map(([what, count]) => `${count} ${what}`)
    .join(", ");
}
