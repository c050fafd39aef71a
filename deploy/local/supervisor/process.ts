import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { withDeathSignal } from "../setup/death-signal.mjs";
import type { PidRegistry } from "../setup/pid-registry.ts";
import { SetupError } from "../setup/setup-error.ts";
import type { LogFile } from "./log-file.ts";

/** Defines a process: its command line, how to detect that it is ready, and how to stop it. */
export interface ProcessSpec {
  name: string;
  command: string;
  args: readonly string[];
  /** The complete environment of the process. The process does not inherit the supervisor's environment. */
  env: NodeJS.ProcessEnv;
  cwd?: string;
  /** Operating system user of the process; by default, the user of the supervisor. */
  user?: { uid: number; gid: number } | undefined;
  /** The process is ready when its standard output matches the pattern, or when the probe returns true. */
  readinessCheck: RegExp | (() => Promise<boolean>);
  /** Receives the output of the process. All processes of a component use the same log. */
  log: LogFile;
  stopSignal?: NodeJS.Signals;
  /**
   * Time limit in milliseconds for the process to end after its stop signal. After this time, the process is killed.
   */
  stopTimeoutMs?: number;
  /**
   * Signal that the process receives if the supervisor dies; works only on Linux with setpriv. The default is SIGKILL,
   * because every component recovers from a crash.
   */
  deathSignal?: NodeJS.Signals;
}

/** Time limit in milliseconds for receiving the remaining output of a process that has ended. */
const OUTPUT_TIMEOUT_MS = 500;

/** Exit code or signal of a process that has ended. */
export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface RunningProcess {
  readonly pid: number;
  /** Resolves after the process has ended. Waits up to OUTPUT_TIMEOUT_MS for its remaining output. */
  readonly exitPromise: Promise<Exit>;
  /**
   * Waits until the process is ready. There is no time limit: on a busy machine, a start is slow, and a restart would
   * increase the load.
   *
   * @throws {SetupError} with the last lines of output, if the process ends before it is ready
   */
  waitUntilReady(): Promise<void>;
  /** Sends the stop signal. Sends SIGKILL if the process does not end within its time limit. */
  stop(): Promise<void>;
  /** Sends SIGKILL, and waits until the process has ended. */
  kill(): Promise<void>;
}

/**
 * Starts a process and appends its output to its log. The process runs in a separate session, so Ctrl-C does not signal
 * it.
 *
 * @throws {SetupError} if the process cannot be started
 */
export async function startProcess(spec: ProcessSpec, pids: PidRegistry): Promise<RunningProcess> {
  const { log } = spec;
  log.write(Buffer.from(formatStartLine(spec.name)));
  const child = spawnChild(spec);
  child.stdout?.on("data", (chunk: Buffer) => log.write(chunk));
  child.stderr?.on("data", (chunk: Buffer) => log.write(chunk));
  const exitPromise = waitForExit(child, log);
  const pid = child.pid;
  if (pid === undefined) {
    const [error] = (await once(child, "error")) as [Error];
    throw new SetupError(`Cannot start ${spec.name}: ${error.message}`);
  }
  pids.add(spec.name, pid, spec.stopSignal ?? "SIGTERM");
  exitPromise.then(() => pids.remove(pid));
  return createRunningProcess(spec, pid, child, exitPromise);
}

function spawnChild(spec: ProcessSpec): ChildProcess {
  const [command, args] = withDeathSignal(spec.deathSignal ?? "SIGKILL", spec.command, spec.args);
  try {
    return spawn(command, args, {
      env: spec.env,
      cwd: spec.cwd,
      ...spec.user,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
  } catch (error) {
    spec.log.close();
    throw new SetupError(`Cannot start ${spec.name}: ${(error as Error).message}`);
  }
}

function createRunningProcess(
  spec: ProcessSpec,
  pid: number,
  child: ChildProcess,
  exitPromise: Promise<Exit>,
): RunningProcess {
  const endProcess = async (signal: NodeJS.Signals, timeoutMs: number) => {
    child.kill(signal);
    const hasTimedOut = await Promise.race([exitPromise.then(() => false), sleep(timeoutMs, true, { ref: false })]);
    if (hasTimedOut) child.kill("SIGKILL");
    await exitPromise;
  };
  const readinessPromise = waitForReadiness(spec, child, exitPromise).catch((error) => {
    throw new SetupError(describeFailure(spec, error));
  });
  readinessPromise.catch(() => undefined); // ignores the rejection if nobody calls waitUntilReady()
  return {
    pid,
    exitPromise,
    waitUntilReady: () => readinessPromise,
    stop: () => endProcess(spec.stopSignal ?? "SIGTERM", spec.stopTimeoutMs ?? 10_000),
    kill: () => endProcess("SIGKILL", 1_000),
  };
}

async function waitForExit(child: ChildProcess, log: LogFile): Promise<Exit> {
  const outputEndPromise = new Promise((resolve) => child.once("close", resolve));
  const exit = await new Promise<Exit>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
    // A child without a pid was not started, so it emits no exit event.
    child.once("error", () => child.pid === undefined && resolve({ code: null, signal: null }));
  });
  // A grandchild can keep the pipes open, so the wait for the remaining output has a time limit.
  await Promise.race([outputEndPromise, sleep(OUTPUT_TIMEOUT_MS, undefined, { ref: false })]);
  log.close();
  child.stdout?.destroy();
  child.stderr?.destroy();
  return exit;
}

async function waitForReadiness(spec: ProcessSpec, child: ChildProcess, exitPromise: Promise<Exit>): Promise<void> {
  const { readinessCheck: check } = spec;
  const controller = new AbortController();
  const earlyExitPromise = exitPromise.then(({ code, signal }) => {
    throw new Error(`it ended with ${signal ?? `code ${code}`}`);
  });
  const readinessPromise =
    check instanceof RegExp ? waitForMatchingLine(child, check) : pollUntilReady(check, controller.signal);
  try {
    await Promise.race([readinessPromise, earlyExitPromise]);
  } finally {
    controller.abort();
    for (const promise of [readinessPromise, earlyExitPromise]) promise.catch(() => undefined);
  }
}

async function pollUntilReady(probe: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  while (!(await probe())) await sleep(40, undefined, { signal });
}

function waitForMatchingLine(child: ChildProcess, pattern: RegExp): Promise<void> {
  return new Promise((resolve) => {
    let recentOutput = "";
    const onOutput = (chunk: Buffer) => {
      recentOutput = (recentOutput + chunk.toString("utf8")).slice(-4_000);
      if (!pattern.test(recentOutput)) return;
      child.stdout?.off("data", onOutput);
      resolve();
    };
    child.stdout?.on("data", onOutput);
  });
}

function formatStartLine(name: string): string {
  return `--- ${new Date().toISOString()} ${name} starts\n`;
}

/** Returns a message with the reason for the failure, the path of the log, and the last lines of output. */
function describeFailure({ name, log }: ProcessSpec, error: Error): string {
  const lines = log.getLastLines();
  const startLineIndex = lines.findLastIndex((line) => line.startsWith("--- ") && line.endsWith(`${name} starts`));
  const outputLines = lines.slice(startLineIndex + 1).filter((line) => !line.startsWith("--- "));
  const summary = `${name} did not start: ${error.message}. See its log: ${log.path}`;
  return [summary, ...outputLines.slice(-12)].join("\n  ");
}
