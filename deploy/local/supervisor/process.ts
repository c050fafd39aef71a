import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { withDeathSignal } from "../setup/death-signal.mjs";
import type { PidRegistry } from "../setup/pid-registry.ts";
import { SetupError } from "../setup/setup-error.ts";
import type { LogFile } from "./log-file.ts";

/** A process to run, with the ways to detect that it is ready and to stop it. */
export interface ProcessSpec {
  name: string;
  command: string;
  args: readonly string[];
  /** The complete environment of the process. It inherits nothing. */
  env: NodeJS.ProcessEnv;
  cwd?: string;
  /** The OS user to run as; the supervisor's own by default. */
  user?: { uid: number; gid: number };
  /** Ready if a line of its output matches, or if the probe returns true. The probe runs every 40 ms. */
  ready: RegExp | (() => Promise<boolean>);
  /** Receives its output. All processes of a component share it. */
  log: LogFile;
  stopSignal?: NodeJS.Signals;
  /** Time limit of a stop; then the process is killed. Milliseconds. */
  stopTimeoutMs?: number;
  /** Signal that it receives if the supervisor dies. SIGKILL by default: every component recovers from it. */
  deathSignal?: NodeJS.Signals;
}

/** Exit code or signal of a process. */
export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface RunningProcess {
  readonly pid: number;
  /** Resolves when the process has ended and its output is in the log. */
  readonly exited: Promise<Exit>;
  /**
   * Waits until the process is ready, without a time limit: a start is slow on a busy machine, and a restart would add to
   * the load.
   *
   * @throws {SetupError} with the last lines of output if the process ends first
   */
  waitUntilReady(): Promise<void>;
  /** Sends the stop signal, and SIGKILL after the time limit. */
  stop(): Promise<void>;
  /** Sends SIGKILL, like a crash. */
  kill(): Promise<void>;
}

/**
 * Starts a process whose output goes to its log. It has its own session, so that Ctrl-C in the terminal reaches only the
 * supervisor, and it ends if the supervisor dies.
 *
 * @throws {SetupError} if it cannot be started
 */
export async function startProcess(spec: ProcessSpec, pids: PidRegistry): Promise<RunningProcess> {
  const { log } = spec;
  log.write(Buffer.from(formatStartLine(spec.name)));
  const child = spawnChild(spec);
  child.stdout?.on("data", (chunk: Buffer) => log.write(chunk));
  child.stderr?.on("data", (chunk: Buffer) => log.write(chunk));
  const exited = waitForExit(child, log);
  const pid = child.pid;
  if (pid === undefined) {
    const [error] = (await once(child, "error")) as [Error];
    throw new SetupError(`Cannot start ${spec.name}: ${error.message}`);
  }
  pids.add(spec.name, pid, spec.stopSignal ?? "SIGTERM");
  exited.then(() => pids.remove(pid));
  return createHandle(spec, pid, child, exited);
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

function createHandle(
  spec: ProcessSpec,
  pid: number,
  child: ChildProcess,
  exited: Promise<Exit>,
): RunningProcess {
  const end = async (signal: NodeJS.Signals, timeoutMs: number) => {
    child.kill(signal);
    const late = await Promise.race([exited.then(() => false), sleep(timeoutMs, true, { ref: false })]);
    if (late) child.kill("SIGKILL");
    await exited;
  };
  const ready = waitForReadiness(spec, child, exited).catch((error) => {
    throw new SetupError(describeFailure(spec, error));
  });
  ready.catch(() => undefined); // waitReady() reports it; without a caller it is not an unhandled rejection
  return {
    pid,
    exited,
    waitUntilReady: () => ready,
    stop: () => end(spec.stopSignal ?? "SIGTERM", spec.stopTimeoutMs ?? 10_000),
    kill: () => end("SIGKILL", 1_000),
  };
}

async function waitForExit(child: ChildProcess, log: LogFile): Promise<Exit> {
  return new Promise((resolve) => {
    child.once("error", () => {
      // Without a pid no process was started, so no exit will follow.
      if (child.pid !== undefined) return;
      log.close();
      resolve({ code: null, signal: null });
    });
    child.once("exit", (code, signal) => {
      // A grandchild can keep the pipes open, so the wait for the remaining output has a time limit.
      const finish = () => {
        log.close();
        child.stdout?.destroy();
        child.stderr?.destroy();
        resolve({ code, signal });
      };
      const timer = setTimeout(finish, 500);
      child.once("close", () => {
        clearTimeout(timer);
        finish();
      });
    });
  });
}

async function waitForReadiness(
  spec: ProcessSpec,
  child: ChildProcess,
  exited: Promise<Exit>,
): Promise<void> {
  const { ready } = spec;
  const abort = new AbortController();
  const died = exited.then(({ code, signal }) => {
    throw new Error(`it ended with ${signal ?? `code ${code}`}`);
  });
  const becameReady =
    ready instanceof RegExp ? waitForMatchingLine(child, ready) : pollUntilReady(ready, abort.signal);
  try {
    await Promise.race([becameReady, died]);
  } finally {
    abort.abort();
    for (const loser of [becameReady, died]) loser.catch(() => undefined);
  }
}

async function pollUntilReady(probe: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  while (!(await probe())) await sleep(40, undefined, { signal });
}

function waitForMatchingLine(child: ChildProcess, pattern: RegExp): Promise<void> {
  return new Promise((resolve) => {
    let text = "";
    const look = (chunk: Buffer) => {
      text = (text + chunk.toString("utf8")).slice(-4_000);
      if (!pattern.test(text)) return;
      child.stdout?.off("data", look);
      resolve();
    };
    child.stdout?.on("data", look);
  });
}

function formatStartLine(name: string): string {
  return `--- ${new Date().toISOString()} ${name} starts\n`;
}

/** Names the reason, the log file and the last lines that the process itself printed. */
function describeFailure({ name, log }: ProcessSpec, error: Error): string {
  const lines = log.lastLines();
  const started = lines.findLastIndex((line) => line.startsWith("--- ") && line.endsWith(`${name} starts`));
  const own = lines.slice(started + 1).filter((line) => !line.startsWith("--- "));
  return [`${name} did not start: ${error.message}. See its log: ${log.path}`, ...own.slice(-12)].join(
    "\n  ",
  );
}
