import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { withDeathSignal } from "../setup/death-signal.mjs";
import type { PidRegistry } from "../setup/pid-registry.ts";
import { SetupError } from "../setup/setup-error.ts";
import type { LogFile } from "./log-file.ts";

/** One process to run, and how to tell that it is ready and to end it. */
export interface ProcessSpec {
  name: string;
  command: string;
  args: readonly string[];
  /** The whole environment of the process; nothing is inherited. */
  env: NodeJS.ProcessEnv;
  cwd?: string;
  /** The OS user to run as; the supervisor's own by default. */
  user?: { uid: number; gid: number };
  /** Ready when a line of its output matches, or when the probe says so (asked every 40 ms). */
  ready: RegExp | (() => Promise<boolean>);
  /** Takes its output; shared by all processes of a component. */
  log: LogFile;
  stopSignal?: NodeJS.Signals;
  /** After this long it is killed. Milliseconds. */
  stopTimeoutMs?: number;
  /** What it gets when the supervisor dies; SIGKILL by default, since every component survives that. */
  deathSignal?: NodeJS.Signals;
}

/** How a process ended. */
export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface RunningProcess {
  readonly pid: number;
  /** Settles when the process has ended and its output is in the log. */
  readonly exited: Promise<Exit>;
  /**
   * Waits as long as the process lives: on a busy machine a start takes its time, and a kill would only add to the load.
   *
   * @throws {SetupError} with its last lines if the process ends first
   */
  waitReady(): Promise<void>;
  /** Asks it to stop, and kills it when it does not. */
  stop(): Promise<void>;
  /** Kills it the hard way, as a crash would. */
  kill9(): Promise<void>;
}

/**
 * Starts a process in a session of its own, so that a Ctrl-C in the terminal reaches the supervisor alone, and bound
 * to the supervisor's life. Its output goes to the log file.
 *
 * @throws {SetupError} when it cannot be started at all
 */
export async function startProcess(spec: ProcessSpec, pids: PidRegistry): Promise<RunningProcess> {
  const { log } = spec;
  log.write(Buffer.from(startLine(spec.name)));
  const child = spawnChild(spec);
  child.stdout?.on("data", (chunk: Buffer) => log.write(chunk));
  child.stderr?.on("data", (chunk: Buffer) => log.write(chunk));
  const exited = waitForExit(child, log);
  const pid = child.pid;
  if (pid === undefined) {
    const [error] = (await once(child, "error")) as [Error];
    throw new SetupError(`${spec.name} cannot be started: ${error.message}`);
  }
  pids.add(spec.name, pid, spec.stopSignal ?? "SIGTERM");
  exited.then(() => pids.remove(pid));
  return handle(spec, pid, child, exited);
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
    throw new SetupError(`${spec.name} cannot be started: ${(error as Error).message}`);
  }
}

function handle(spec: ProcessSpec, pid: number, child: ChildProcess, exited: Promise<Exit>): RunningProcess {
  const end = async (signal: NodeJS.Signals, timeoutMs: number) => {
    child.kill(signal);
    const late = await Promise.race([exited.then(() => false), sleep(timeoutMs, true, { ref: false })]);
    if (late) child.kill("SIGKILL");
    await exited;
  };
  const ready = waitUntilReady(spec, child, exited).catch((error) => {
    throw new SetupError(describeFailure(spec, error));
  });
  ready.catch(() => undefined); // reported to whoever waits; a process that nobody waits for just has its log
  return {
    pid,
    exited,
    waitReady: () => ready,
    stop: () => end(spec.stopSignal ?? "SIGTERM", spec.stopTimeoutMs ?? 10_000),
    kill9: () => end("SIGKILL", 1_000),
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
      // A grandchild may hold the pipes open for longer: the output is waited for, but not for ever.
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

async function waitUntilReady(spec: ProcessSpec, child: ChildProcess, exited: Promise<Exit>): Promise<void> {
  const { ready } = spec;
  const abort = new AbortController();
  const died = exited.then(({ code, signal }) => {
    throw new Error(`ended with ${signal ?? `code ${code}`}`);
  });
  const becameReady = ready instanceof RegExp ? lineMatches(child, ready) : poll(ready, abort.signal);
  try {
    await Promise.race([becameReady, died]);
  } finally {
    abort.abort();
    for (const loser of [becameReady, died]) loser.catch(() => undefined);
  }
}

async function poll(probe: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  while (!(await probe())) await sleep(40, undefined, { signal });
}

function lineMatches(child: ChildProcess, pattern: RegExp): Promise<void> {
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

function startLine(name: string): string {
  return `--- ${new Date().toISOString()} ${name} starts\n`;
}

/** Names the reason, the log file and the last lines that the process itself printed. */
function describeFailure({ name, log }: ProcessSpec, error: Error): string {
  const lines = log.lastLines();
  const started = lines.findLastIndex((line) => line.startsWith("--- ") && line.endsWith(`${name} starts`));
  const own = lines.slice(started + 1).filter((line) => !line.startsWith("--- "));
  return [`${name} did not start: ${error.message}; its log is ${log.path}`, ...own.slice(-12)].join("\n  ");
}
