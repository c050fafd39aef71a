import { setTimeout as sleep } from "node:timers/promises";
import { reportWhileRunning } from "../setup/progress.ts";
import { SetupError } from "../setup/setup-error.ts";
import type { Component, ComponentContext } from "./component.ts";
import type { Exit, RunningProcess } from "./process.ts";

/** The delay before a restart doubles from 0.25 s to 15 s. It is reset if a process was ready for 60 s. */
const FIRST_RESTART_DELAY_MS = 250;
const MAX_RESTART_DELAY_MS = 15_000;
const RESET_DELAY_AFTER_MS = 60_000;

/** Defines how the process of a component is started and watched. */
export interface ProcessDefinition {
  name: string;
  launch: () => Promise<RunningProcess>;
  /**
   * Watches a ready process until the signal aborts. Resolves with the reason if the process lives but needs a restart,
   * with undefined if the signal aborted.
   */
  watch?: (signal: AbortSignal) => Promise<string | undefined>;
}

/**
 * Creates a component that this supervisor runs, without starting it. A start has no time limit. If the context allows
 * restarts, a process that dies is restarted until it is ready, without a limit: a full disk can last for hours.
 */
export function createComponent(process: ProcessDefinition, context: ComponentContext): Component {
  return new SupervisedProcess(process, context);
}

class SupervisedProcess implements Component {
  readonly isExternal = false;
  readonly name: string;
  readonly #process: ProcessDefinition;
  readonly #context: ComponentContext;
  #current: RunningProcess | undefined;
  #failuresInARow = 0;
  /** Aborted while the component must stay down: before the first start, and after stop or kill9. */
  #life: AbortSignal = AbortSignal.abort();
  #endLife: () => void = () => undefined;
  #restarting: Promise<void> | undefined;

  constructor(process: ProcessDefinition, context: ComponentContext) {
    this.name = process.name;
    this.#process = process;
    this.#context = context;
  }

  get pid(): number | undefined {
    return this.#current?.pid;
  }

  async start(): Promise<void> {
    if (this.#current) return this.#current.waitUntilReady();
    // Ends a restart that is waiting for its delay: two loops must not start the process twice.
    this.#endLife();
    await this.#restarting;
    const { signal } = this.#context;
    if (signal?.aborted) throw new SetupError(`${this.name} was not started because the stack is stopping.`);
    const controller = new AbortController();
    this.#life = controller.signal;
    this.#endLife = () => controller.abort();
    this.#failuresInARow = 0;
    const stop = () => void this.stop();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      const first = await this.#launch();
      await first.waitUntilReady();
      // Only after the first start succeeded: the caller reports a failure of the first start.
      this.#supervise(first);
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
    if (!this.#current) throw new SetupError(`${this.name} is not running.`);
    await this.#current.waitUntilReady();
  }

  async #end(how: "stop" | "kill"): Promise<void> {
    this.#endLife();
    const ending = this.#current;
    this.#current = undefined;
    await ending?.[how]();
  }

  async #launch(): Promise<RunningProcess> {
    const life = this.#life;
    const started = await this.#process.launch();
    if (life.aborted) {
      await started.stop();
      throw new SetupError(`${this.name} was stopped while it started.`);
    }
    this.#current = started;
    started.exited.then(() => {
      if (this.#current === started) this.#current = undefined;
    });
    return started;
  }

  /** Restarts the process if it dies or hangs. */
  #supervise(process: RunningProcess): void {
    const readyAt = Date.now();
    const over = new AbortController();
    process.exited.then((exit) => {
      over.abort();
      this.#onExit(process, exit, readyAt);
    });
    if (this.#context.restart) this.#watch(process, AbortSignal.any([over.signal, this.#life]));
  }

  async #watch(process: RunningProcess, signal: AbortSignal): Promise<void> {
    const reason = await this.#process.watch?.(signal);
    if (reason === undefined || signal.aborted) return;
    this.#context.log(`Restarting ${this.name} (pid ${process.pid}): ${reason}.`);
    await process.kill();
  }

  #onExit(process: RunningProcess, { code, signal }: Exit, readyAt: number): void {
    const { log, restart } = this.#context;
    if (this.#life.aborted || !restart || this.#current !== undefined) return;
    log(`${this.name} (pid ${process.pid}) died with ${signal ?? `code ${code}`}.`);
    if (Date.now() - readyAt > RESET_DELAY_AFTER_MS) this.#failuresInARow = 0;
    this.#restarting = this.#restart(this.#life);
  }

  /** Retries until the process is ready, or the component must stay down. */
  async #restart(life: AbortSignal): Promise<void> {
    const { log } = this.#context;
    while (!life.aborted) {
      const delayMs = Math.min(FIRST_RESTART_DELAY_MS * 2 ** this.#failuresInARow++, MAX_RESTART_DELAY_MS);
      log(`Restarting ${this.name} in ${delayMs / 1000} s.`);
      await sleep(delayMs, undefined, { signal: life }).catch(() => undefined);
      if (life.aborted) return;
      try {
        const again = await this.#launch();
        await reportWhileRunning(`restart of ${this.name}`, again.waitUntilReady(), log);
        log(`${this.name} is running again.`);
        this.#supervise(again);
        return;
      } catch (error) {
        if (!life.aborted) log((error as Error).message);
      }
    }
  }
}
