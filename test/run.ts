/** `npm test`: types, lint, then mocha with the arguments given. The last line says `N passed, N failed`. */
import { type ChildProcess, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { findNatsServer } from "../deploy/local/servers/nats.ts";
import { withDeathSignal } from "../deploy/local/setup/death-signal.mjs";
import { PROJECT } from "../deploy/local/setup/project.ts";
import { runEntry } from "../deploy/local/setup/setup-error.ts";
import { findChromium } from "./support/chromium.ts";
import { splitFiles } from "./support/split-files.ts";

const bin = (name: string) => path.join(PROJECT, "node_modules", ".bin", name);

/** Tests that stop and kill servers wait for much of their time, so one process more than there are cores is quicker. */
const MOCHA_PROCESSES = Math.min(2, os.availableParallelism()) + 1;

/** A process of mocha, its output on the terminal, or in a file until the others have ended. */
interface MochaRun {
  words: string[];
  summary: string;
  output?: string;
}

await runEntry(async () => {
  // Installed now if need be, since that would take longer than a test may.
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
      () => linkAssets(build),
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

/** Links everything that compiled code needs besides itself. */
function linkAssets(build: string): void {
  const assets = ["query-api/docs/assets", "command/audit/page/assets", "projection/migrations"];
  const modules = ["pid-lock.mjs", "death-signal.mjs"].map((name) => `deploy/local/setup/${name}`);
  for (const name of ["node_modules", "package.json", ...assets, ...modules])
    fs.symlinkSync(path.join(PROJECT, name), path.join(build, name));
}

/** What mocha is to run: the arguments given, else all tests, in several processes. */
function planRuns(given: string[], scratch: string): MochaRun[] {
  const file = (kind: string, index: number) => path.join(scratch, `${kind}-${index}`);
  if (given.length > 0) {
    const files = given.some((word) => word.includes("test/")) ? [] : ["test/**/*.test.ts"];
    return [{ words: [...given, ...files], summary: file("summary", 0) }];
  }
  const files = fs
    .readdirSync(path.join(PROJECT, "test"), { recursive: true, encoding: "utf8" })
    .flatMap((name) => (name.endsWith(".test.ts") ? [path.join(PROJECT, "test", name)] : []));
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
  const bound = withDeathSignal("SIGTERM", command, args);
  const into = output === undefined ? "inherit" : fs.openSync(output, "w");
  const child = spawn(...bound, {
    cwd: PROJECT,
    stdio: ["inherit", into, into],
    env: { ...process.env, ...env },
  });
  if (into !== "inherit") fs.closeSync(into);
  return child;
}

/** Runs one step to its end; a signal ends the step and all that would follow. */
async function step(
  name: string,
  begin: () => ChildProcess[],
  finish: () => void = () => undefined,
): Promise<number> {
  const startedAt = Date.now();
  console.log(`== ${name}`);
  const children = begin();
  const ended = Promise.all(children.map(exitCode));
  const pass = (signal: NodeJS.Signals) => {
    for (const child of children) child.kill(signal);
    ended.finally(() => process.exit(130));
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, pass);
  const code = (await ended).find((code) => code !== 0) ?? 0;
  for (const signal of signals) process.off(signal, pass);
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

/** A process of mocha that left no summary has failed as a whole. */
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
