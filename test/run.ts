/**
 * `npm test`: checks types and style, then runs mocha with its arguments. Prints the failed tests once more at the end.
 * The last line is `N passed, N failed, N skipped`.
 */
import { type ChildProcess, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { findNatsServer } from "../deploy/local/servers/nats.ts";
import { linkAssets } from "../deploy/local/setup/build.mjs";
import { withDeathSignal } from "../deploy/local/setup/processes.mjs";
import { PROJECT_FOLDER } from "../deploy/local/setup/project.ts";
import { runEntry } from "../deploy/local/setup/setup-error.ts";
import { bundlePrograms, bundleTests } from "./support/bundle.ts";
import { findChromium } from "./support/chromium.ts";
import type { FileResult } from "./support/mocha-process.ts";

const toBinPath = (name: string) => path.join(PROJECT_FOLDER, "node_modules", ".bin", name);

/**
 * TypeScript compiler. `.bin/tsc` can be a different version, because `typescript-5` has a program with the same name.
 */
const COMPILER_FILE = path.join(PROJECT_FOLDER, "node_modules", "typescript", "bin", "tsc");

/** Number of mocha processes: 3 on one core, otherwise 4. More than the cores, because many tests only wait. */
const MOCHA_PROCESSES = Math.min(2, os.availableParallelism()) + 2;

/** Program of the mocha processes. */
const POOL_ENTRY = "test/support/mocha-process.ts";

/** Durations of long test files in seconds. `UPDATE_DURATIONS=true npm test` updates this file. */
const DURATIONS_FILE = path.join(PROJECT_FOLDER, "test", "durations.json");

/** Minimum duration of a long test file. Seconds. */
const MIN_LONG_DURATION_SECONDS = 5;

const durations: Record<string, number> = JSON.parse(fs.readFileSync(DURATIONS_FILE, "utf8"));
const newDurations: [file: string, seconds: number][] = [];

type Counts = Record<"passed" | "failed" | "skipped", number>;

/** Descriptions of the failed tests, by file. */
const failureOutputs: string[] = [];

await runEntry(async () => {
  // Missing programs are installed before the tests, because an installation exceeds the time limit of a test.
  if (!process.env.NATS_URL) await findNatsServer((line) => console.log(line));
  await findChromium((line) => console.log(line));
  const scratchDir = fs.mkdtempSync(path.join(os.tmpdir(), "test-run-"));
  const buildDir = path.join(scratchDir, "build");
  process.env.PROJECT_BUILD = buildDir;
  const counts: Counts = { passed: 0, failed: 0, skipped: 0 };
  const args = process.argv.slice(2);
  const summaryFile = path.join(scratchDir, "summary");
  // The compiler's checkers repeat part of each other's work. With one of them, the linter can use the other core.
  const compilerArgs = [COMPILER_FILE, "--outDir", buildDir, "--checkers", "1"];
  const checkExitCode = await runStep("types and style", () => [
    startProcess(process.execPath, compilerArgs),
    startProcess(toBinPath("biome"), ["check", "."]),
  ]);
  linkBuild(buildDir);
  await bundlePrograms(buildDir);
  const files = listTestFiles();
  const bundleDir = args.length > 0 ? buildDir : await bundleTests(buildDir, [POOL_ENTRY, ...files]);
  const testExitCode = await runStep(
    "tests",
    () => (args.length > 0 ? [startMocha(args, summaryFile)] : startPool(files, bundleDir, counts)),
    () => counts.failed > 0,
  );
  for (const failureOutput of failureOutputs) console.log(failureOutput);
  // Mocha writes no summary if it cannot load a test file. That counts as one failed test.
  if (fs.existsSync(summaryFile)) console.log(fs.readFileSync(summaryFile, "utf8"));
  else console.log(formatCounts(args.length === 0 ? counts : { ...counts, failed: testExitCode === 0 ? 0 : 1 }));
  fs.rmSync(scratchDir, { recursive: true });
  process.exitCode = checkExitCode || testExitCode;
});

/** Links files into the build that the compiled code needs. */
function linkBuild(buildDir: string): void {
  linkAssets(PROJECT_FOLDER, buildDir);
  for (const name of ["node_modules", "package.json"])
    fs.symlinkSync(path.join(PROJECT_FOLDER, name), path.join(buildDir, name));
}

/** Starts mocha with the given arguments. The summary is written to a file. */
function startMocha(args: readonly string[], summaryFile: string): ChildProcess {
  const strictOptions = process.env.CI ? ["--forbid-only"] : [];
  const filePatterns = args.some((arg) => arg.includes("test/")) ? [] : ["test/**/*.test.ts"];
  return startProcess(toBinPath("mocha"), [...strictOptions, ...args, ...filePatterns], { TEST_SUMMARY: summaryFile });
}

/** Lists all test files: long files by duration, and then the others by size, both in descending order. */
function listTestFiles(): string[] {
  return fs
    .readdirSync(path.join(PROJECT_FOLDER, "test"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => path.join("test", name))
    .map((file) => ({ file, seconds: durations[file] ?? 0, size: fs.statSync(path.join(PROJECT_FOLDER, file)).size }))
    .sort((a, b) => b.seconds - a.seconds || b.size - a.size)
    .map(({ file }) => file);
}

/**
 * Starts processes that together run all test files, and counts the results.
 *
 * Long files start early, because otherwise one process would still run when the others have ended. One process starts
 * with short files, because long files mostly wait and would not use the CPU.
 */
function startPool(files: readonly string[], bundleDir: string, counts: Counts): ChildProcess[] {
  const queue = [...files];
  if (process.env.UPDATE_DURATIONS === "true")
    process.once("exit", () => {
      const sortedDurations = Object.fromEntries(newDurations.sort(([, a], [, b]) => b - a));
      fs.writeFileSync(DURATIONS_FILE, `${JSON.stringify(sortedDurations, null, 2)}\n`);
    });
  return Array.from({ length: MOCHA_PROCESSES }, (_, index) => startPoolProcess(queue, index === 0, bundleDir, counts));
}

function startPoolProcess(queue: string[], prefersShort: boolean, bundleDir: string, counts: Counts): ChildProcess {
  const toBundle = (sourceFile: string) => path.join(bundleDir, sourceFile.replace(/\.ts$/, ".js"));
  const child = startProcess(process.execPath, ["--enable-source-maps", toBundle(POOL_ENTRY)], {}, "ipc");
  let file: string | undefined;
  let startedAtMs = 0;
  const sendNext = () => {
    const shortIndex = prefersShort ? queue.findIndex((name) => !(name in durations)) : 0;
    [file] = queue.splice(Math.max(shortIndex, 0), 1);
    startedAtMs = performance.now();
    if (file === undefined) child.disconnect();
    else child.send(toBundle(file));
  };
  child.on("message", ({ output, failureOutput, ...fileCounts }: FileResult) => {
    fs.writeSync(process.stdout.fd, output);
    if (file === undefined) return;
    const seconds = Math.round((performance.now() - startedAtMs) / 1000);
    if (seconds >= MIN_LONG_DURATION_SECONDS) newDurations.push([file, seconds]);
    if (failureOutput !== "") failureOutputs.push(`${file}\n${failureOutput}`);
    for (const [name, count] of Object.entries(fileCounts)) counts[name as keyof Counts] += count;
    sendNext();
  });
  child.once("exit", (code) => {
    if (code === 0 && file === undefined) return;
    counts.failed += 1;
    console.log(`The process that ran ${file ?? "the last tests"} ended with code ${code}.`);
  });
  sendNext();
  return child;
}

function startProcess(command: string, args: string[], env: NodeJS.ProcessEnv = {}, ipc?: "ipc"): ChildProcess {
  const commandLine = withDeathSignal("SIGTERM", command, args);
  return spawn(...commandLine, {
    cwd: PROJECT_FOLDER,
    stdio: ["inherit", "inherit", "inherit", ...(ipc ? [ipc] : [])],
    env: { ...process.env, ...env },
  });
}

/**
 * Runs one step and returns its exit code. A signal ends the whole run.
 *
 * @param hasFailures called if all processes have exited with 0; returns true if the step has failed nevertheless
 */
async function runStep(
  name: string,
  startProcesses: () => ChildProcess[],
  hasFailures: () => boolean = () => false,
): Promise<number> {
  const startedAt = Date.now();
  console.log(`== ${name}`);
  const children = startProcesses();
  const exitPromise = Promise.all(children.map(awaitExitCode));
  const forwardSignal = (signal: NodeJS.Signals) => {
    for (const child of children) child.kill(signal);
    exitPromise.finally(() => process.exit(130));
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, forwardSignal);
  const exitCode = (await exitPromise).find((code) => code !== 0);
  for (const signal of signals) process.off(signal, forwardSignal);
  const code = exitCode ?? (hasFailures() ? 1 : 0);
  const secondsText = ((Date.now() - startedAt) / 1000).toFixed(1);
  console.log(`== ${name}: ${code === 0 ? "passed" : "FAILED"} (${secondsText} s)`);
  return code;
}

function awaitExitCode(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (status) => resolve(status ?? 1));
  });
}

function formatCounts({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}
