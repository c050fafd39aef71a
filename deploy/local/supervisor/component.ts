import { spawn } from "node:child_process";
import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { withDeathSignal } from "../setup/processes.mjs";
import type { LocalPaths } from "../setup/project.ts";
import { SetupError } from "../setup/setup-error.ts";

/** A server or service of the stack. After a stop, it can be started again with the same port and data. */
export interface Component {
  readonly name: string;
  /** True for an external server, which the stack cannot start or stop. */
  readonly isExternal: boolean;
  /** Undefined if the component is not running. */
  readonly pid: number | undefined;
  /**
   * Starts the process if it is not running, and waits until it is ready. There is no time limit: on a busy machine, a
   * start is slow, and a restart would increase the load.
   *
   * @throws {SetupError} with the last lines of output, if the process ends before it is ready
   */
  start(): Promise<void>;
  stop(): Promise<void>;
  kill(): Promise<void>;
}

export interface ComponentContext {
  paths: LocalPaths;
  log: (line: string) => void;
  /** If true, a component whose process ends by itself is started again. */
  shouldRestart?: boolean | undefined;
  /** When aborted, the stack stops, even while it is still starting. */
  signal?: AbortSignal | undefined;
}

export interface ProcessSpec {
  command: string;
  args: readonly string[];
  /** Complete environment of the process. Nothing is inherited from the supervisor. */
  env: NodeJS.ProcessEnv;
  cwd: string;
  /** User who runs the process. The default is the supervisor's user. */
  user?: { uid: number; gid: number } | undefined;
  isReady: () => Promise<boolean>;
  stopSignal?: NodeJS.Signals;
  /** Time after which a stopping process is killed. */
  stopTimeoutMs?: number;
  /**
   * Signal that the process receives if the supervisor dies; works only on Linux with setpriv. The default is SIGKILL,
   * because every component recovers from a crash.
   */
  deathSignal?: NodeJS.Signals;
}

interface RunningProcess {
  readonly pid: number | undefined;
  /** Resolves with the exit code, the signal or the start error. */
  readonly exitPromise: Promise<string>;
  readonly readinessPromise: Promise<void>;
  end(signal: NodeJS.Signals, timeoutMs: number): Promise<void>;
}

const READINESS_INTERVAL_MS = 40;
const RESTART_DELAY_MS = 1_000;
const DEFAULT_STOP_TIMEOUT_MS = 10_000;
const MAX_REPORTED_LINES = 12;

/**
 * Creates a component, but does not start its process.
 *
 * @param prepareProcess called before each start of the process
 */
export function createComponent(
  name: string,
  prepareProcess: () => ProcessSpec | Promise<ProcessSpec>,
  context: ComponentContext,
): Component {
  let spec: ProcessSpec | undefined;
  let running: RunningProcess | undefined;
  let launchPromise: Promise<void> | undefined;
  /** True from a start until a stop or kill. */
  let isWanted = false;

  const launch = async () => {
    spec = await prepareProcess();
    if (!isWanted) throw new SetupError(`${name} was stopped while it started.`);
    const launched = startProcess(name, spec, context.paths.log(name));
    running = launched;
    launched.exitPromise.then(() => {
      if (running === launched) running = undefined;
    });
    await launched.readinessPromise;
    launched.exitPromise.then((reason) => {
      if (isWanted && context.shouldRestart) restart(`${name} (pid ${launched.pid}) ended with ${reason}.`);
    });
  };
  const launchOnce = () => {
    launchPromise ??= launch().finally(() => {
      launchPromise = undefined;
    });
    return launchPromise;
  };
  const restart = async (reason: string) => {
    context.log(`${reason} Starting it again.`);
    while (isWanted) {
      await sleep(RESTART_DELAY_MS);
      if (!isWanted || running) return;
      await launchOnce().then(
        () => context.log(`${name} is running again.`),
        (error: Error) => isWanted && context.log(error.message),
      );
    }
  };
  const end = async (signal: NodeJS.Signals, timeoutMs: number) => {
    isWanted = false;
    await running?.end(signal, timeoutMs);
  };
  const stop = () => end(spec?.stopSignal ?? "SIGTERM", spec?.stopTimeoutMs ?? DEFAULT_STOP_TIMEOUT_MS);
  return {
    name,
    isExternal: false,
    get pid() {
      return running?.pid;
    },
    async start() {
      const { signal } = context;
      if (signal?.aborted) throw new SetupError(`${name} was not started because the stack is stopping.`);
      isWanted = true;
      const stopOnAbort = () => void stop();
      signal?.addEventListener("abort", stopOnAbort, { once: true });
      await (running?.readinessPromise ?? launchOnce()).finally(() =>
        signal?.removeEventListener("abort", stopOnAbort),
      );
    },
    stop,
    kill: () => end("SIGKILL", DEFAULT_STOP_TIMEOUT_MS),
  };
}

/** Creates the component of an external server. The method `start` does nothing; `stop` and `kill` fail. */
export function createExternalComponent(name: string): Component {
  const refuseControl = async () => {
    throw new SetupError(`${name} is an external server. Start and stop it where it runs.`);
  };
  return {
    name,
    isExternal: true,
    pid: undefined,
    start: async () => undefined,
    stop: refuseControl,
    kill: refuseControl,
  };
}

/**
 * Starts a process that appends its output to the log file. The process runs in a separate session, so Ctrl-C does not
 * signal it.
 */
function startProcess(name: string, spec: ProcessSpec, logFile: string): RunningProcess {
  const [command, args] = withDeathSignal(spec.deathSignal ?? "SIGKILL", spec.command, spec.args);
  const log = fs.openSync(logFile, "a", 0o600);
  const logStart = fs.fstatSync(log).size;
  const { env, cwd, user } = spec;
  const child = spawn(command, args, { env, cwd, ...user, detached: true, stdio: ["ignore", log, log] });
  fs.closeSync(log);
  const exitPromise = new Promise<string>((resolve) => {
    child.once("exit", (code, signal) => resolve(signal ?? `code ${code}`));
    child.on("error", (error) => resolve(error.message));
  });
  const readinessPromise = waitUntilReady(spec, exitPromise).catch((error: Error) => {
    const output = fs.readFileSync(logFile).subarray(logStart).toString("utf8").trim().split("\n");
    const summary = `${name} did not start: ${error.message}. See its log: ${logFile}`;
    throw new SetupError([summary, ...output.slice(-MAX_REPORTED_LINES)].join("\n  "));
  });
  readinessPromise.catch(() => undefined); // the component may be stopped before anything waits for it
  return {
    pid: child.pid,
    exitPromise,
    readinessPromise,
    async end(signal, timeoutMs) {
      child.kill(signal);
      const hasTimedOut = await Promise.race([exitPromise.then(() => false), sleep(timeoutMs, true, { ref: false })]);
      if (hasTimedOut) child.kill("SIGKILL");
      await exitPromise;
    },
  };
}

async function waitUntilReady({ isReady }: ProcessSpec, exitPromise: Promise<string>): Promise<void> {
  let exit: string | undefined;
  exitPromise.then((reason) => {
    exit = reason;
  });
  while (exit === undefined) {
    if (await Promise.race([isReady(), exitPromise.then(() => false)])) return;
    await Promise.race([sleep(READINESS_INTERVAL_MS), exitPromise]);
  }
  throw new Error(`it ended with ${exit}`);
}
