import { setTimeout as sleep } from "node:timers/promises";
import { reportWhileRunning } from "../setup/progress.ts";
import { SetupError } from "../setup/setup-error.ts";
import type { Component, ComponentContext } from "./component.ts";
import { openLogFile } from "./log-file.ts";
import { type Exit, type ProcessSpec, type RunningProcess, startProcess } from "./process.ts";

/**
 * The delay before a restart starts at 0.25 s and doubles up to 15 s. It starts at 0.25 s again if the process dies
 * more than a minute after it was ready.
 */
const FIRST_RESTART_DELAY_MS = 250;
const MAX_RESTART_DELAY_MS = 15_000;
const STABLE_RUN_MS = 60_000;

type ProcessOptions = Omit<ProcessSpec, "name" | "log">;

/** Defines how the process of a component is started and watched. */
export interface ComponentDefinition {
  name: string;
  /** Called before each start of the process. */
  prepareProcess: () => ProcessOptions | Promise<ProcessOptions>;
  /**
   * Watches a process that is ready. If the process must be restarted, resolves with the reason. If the signal is
   * aborted, resolves with undefined.
   */
  watch?: (signal: AbortSignal) => Promise<string | undefined>;
}

/**
 * Creates a component whose process the supervisor manages. Does not start the process.
 *
 * If the context allows restarts, a process that dies or hangs is restarted. There is no limit on the number of
 * attempts or on the duration of a start, because a disk can be full for hours.
 */
export function createComponent(definition: ComponentDefinition, context: ComponentContext): Component {
  return new SupervisedProcess(definition, context);
}

class SupervisedProcess implements Component {
  readonly isExternal = false;
  readonly name: string;
  readonly #definition: ComponentDefinition;
  readonly #context: ComponentContext;
  readonly #log;
  #currentProcess: RunningProcess | undefined;
  #consecutiveFailures = 0;
  /** Aborted while the component must not run: before its first start, and after a stop or kill. */
  #runSignal: AbortSignal = AbortSignal.abort();
  #abortRun: () => void = () => undefined;
  #pendingRestart: Promise<void> | undefined;

  constructor(definition: ComponentDefinition, context: ComponentContext) {
    this.name = definition.name;
    this.#definition = definition;
    this.#context = context;
    this.#log = openLogFile(context.paths.log(this.name));
  }

  get pid(): number | undefined {
    return this.#currentProcess?.pid;
  }

  async start(): Promise<void> {
    if (this.#currentProcess) return this.#currentProcess.waitUntilReady();
    // Cancels a restart that is still waiting for its delay, so that the process is not started twice.
    this.#abortRun();
    await this.#pendingRestart;
    const { signal } = this.#context;
    if (signal?.aborted) throw new SetupError(`${this.name} was not started because the stack is stopping.`);
    const controller = new AbortController();
    this.#runSignal = controller.signal;
    this.#abortRun = () => controller.abort();
    this.#consecutiveFailures = 0;
    const stop = () => void this.stop();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      const process = await this.#launch();
      await process.waitUntilReady();
      // Supervision begins only after a successful start. If the start fails, the caller handles the failure.
      this.#supervise(process);
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  stop(): Promise<void> {
    return this.#end("stop");
  }

  kill(): Promise<void> {
    return this.#end("kill");
  }

  async waitUntilReady(): Promise<void> {
    if (!this.#currentProcess) throw new SetupError(`${this.name} is not running.`);
    await this.#currentProcess.waitUntilReady();
  }

  async #end(method: "stop" | "kill"): Promise<void> {
    this.#abortRun();
    const endingProcess = this.#currentProcess;
    this.#currentProcess = undefined;
    await endingProcess?.[method]();
  }

  async #launch(): Promise<RunningProcess> {
    const { name } = this;
    const runSignal = this.#runSignal;
    const options = await this.#definition.prepareProcess();
    const launchedProcess = await startProcess({ ...options, name, log: this.#log }, this.#context.pids);
    if (runSignal.aborted) {
      await launchedProcess.stop();
      throw new SetupError(`${name} was stopped while it started.`);
    }
    this.#currentProcess = launchedProcess;
    launchedProcess.exitPromise.then(() => {
      if (this.#currentProcess === launchedProcess) this.#currentProcess = undefined;
    });
    return launchedProcess;
  }

  /** Restarts the process if it dies or hangs. */
  #supervise(process: RunningProcess): void {
    const readyAt = Date.now();
    const exitController = new AbortController();
    process.exitPromise.then((exit) => {
      exitController.abort();
      this.#onExit(process, exit, readyAt);
    });
    if (this.#context.shouldRestart) this.#watch(process, AbortSignal.any([exitController.signal, this.#runSignal]));
  }

  async #watch(process: RunningProcess, signal: AbortSignal): Promise<void> {
    const reason = await this.#definition.watch?.(signal);
    if (reason === undefined || signal.aborted) return;
    this.#context.log(`Restarting ${this.name} (pid ${process.pid}): ${reason}.`);
    await process.kill();
  }

  #onExit(process: RunningProcess, { code, signal }: Exit, readyAt: number): void {
    const { log, shouldRestart } = this.#context;
    if (this.#runSignal.aborted || !shouldRestart || this.#currentProcess !== undefined) return;
    log(`${this.name} (pid ${process.pid}) died with ${signal ?? `code ${code}`}.`);
    if (Date.now() - readyAt > STABLE_RUN_MS) this.#consecutiveFailures = 0;
    this.#pendingRestart = this.#restart(this.#runSignal);
  }

  /** Starts the process again, and retries until it is ready or the signal is aborted. */
  async #restart(runSignal: AbortSignal): Promise<void> {
    const { log } = this.#context;
    while (!runSignal.aborted) {
      const delayMs = Math.min(FIRST_RESTART_DELAY_MS * 2 ** this.#consecutiveFailures++, MAX_RESTART_DELAY_MS);
      log(`Restarting ${this.name} in ${delayMs / 1000} s.`);
      await sleep(delayMs, undefined, { signal: runSignal }).catch(() => undefined);
      if (runSignal.aborted) return;
      try {
        const process = await this.#launch();
        await reportWhileRunning(`restart of ${this.name}`, process.waitUntilReady(), log);
        log(`${this.name} is running again.`);
        this.#supervise(process);
        return;
      } catch (error) {
        if (!runSignal.aborted) log((error as Error).message);
      }
    }
  }
}
