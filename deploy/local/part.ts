import { setTimeout as sleep } from "node:timers/promises";
import type { PidRegistry } from "./pid-registry.ts";
import type { RunningProcess } from "./process.ts";
import type { LocalPaths } from "./project.ts";
import { SetupError } from "./setup-error.ts";

/** A server or service of the stack, which can be stopped and started again where it was. */
export interface Part {
  readonly name: string;
  /** Somebody else's server, given by a URL: it cannot be stopped or started from here. */
  readonly external: boolean;
  /** The process now running, if any. */
  readonly pid: number | undefined;
  /** Starts it and waits until it is ready; nothing happens when it runs already. */
  start(): Promise<void>;
  /** Stops it in an orderly way. */
  stop(): Promise<void>;
  /** Ends it with SIGKILL, as a crash would. It stays down until start(). */
  kill9(): Promise<void>;
  /** Resolves when it is ready. @throws {SetupError} when it is not running */
  waitReady(): Promise<void>;
}

/** What the parts of one stack have in common. */
export interface PartContext {
  paths: LocalPaths;
  pids: PidRegistry;
  log: (line: string) => void;
  /** Called when restarts keep failing; without it, a part that dies stays down. */
  onGivenUp?: ((message: string) => void) | undefined;
}

/** Restarts wait 0.25 s, doubling up to 15 s; ten failures in a row end it. A life of 60 s counts as a success. */
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 15_000;
const MAX_FAILURES = 10;
const HEALTHY_MS = 60_000;

/** A part that this supervisor runs; not yet started. */
export function createPart(
  name: string,
  launchProcess: () => Promise<RunningProcess>,
  context: PartContext,
): Part {
  const { log, onGivenUp } = context;
  let current: RunningProcess | undefined;
  let stopRestarting = new AbortController();

  const launch = async (again: boolean) => {
    const started = await launchProcess();
    current = started;
    let worked = again; // a first start that fails is its caller's to report
    const startedAt = Date.now();
    started.exited.then(({ code, signal }) => {
      if (current !== started) return;
      current = undefined;
      if (!worked || !onGivenUp || stopRestarting.signal.aborted) return;
      log(`${name} died (${signal ?? `code ${code}`})`);
      const failures = Date.now() - startedAt > HEALTHY_MS ? 0 : undefined;
      restart(failures).catch((error) => onGivenUp(`${name}: ${error.message}`));
    });
    await started.waitReady();
    worked = true;
  };

  let failuresInARow = 0;
  const restart = async (failures = failuresInARow) => {
    failuresInARow = failures + 1;
    if (failuresInARow > MAX_FAILURES) {
      onGivenUp?.(`${name} died ${failuresInARow} times in a row; see its log`);
      return;
    }
    const { signal } = stopRestarting;
    const delayMs = Math.min(FIRST_DELAY_MS * 2 ** failures, MAX_DELAY_MS);
    log(`${name} is started again in ${delayMs / 1000} s`);
    await sleep(delayMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    // A start that fails ends its process, whose exit leads back here.
    await launch(true).then(
      () => log(`${name} runs again`),
      (error) => log(error.message),
    );
  };

  const end = async (how: "stop" | "kill9") => {
    stopRestarting.abort();
    const ending = current;
    current = undefined;
    await ending?.[how]();
  };

  return {
    name,
    external: false,
    get pid() {
      return current?.pid;
    },
    async start() {
      if (current) return current.waitReady();
      stopRestarting = new AbortController();
      failuresInARow = 0;
      return launch(false);
    },
    stop: () => end("stop"),
    kill9: () => end("kill9"),
    async waitReady() {
      if (!current) throw new SetupError(`${name} is not running`);
      await current.waitReady();
    },
  };
}

/** A server that a URL names and that somebody else runs. */
export function externalPart(name: string): Part {
  const refuse = async () => {
    throw new SetupError(
      `${name} is an external server, given by its URL: it is not stopped or started from here`,
    );
  };
  return {
    name,
    external: true,
    pid: undefined,
    start: async () => undefined,
    stop: refuse,
    kill9: refuse,
    waitReady: async () => undefined,
  };
}
