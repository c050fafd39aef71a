import { setTimeout as sleep } from "node:timers/promises";
import { reportWhileRunning } from "../setup/progress.ts";
import { SetupError } from "../setup/setup-error.ts";
import type { Component, ComponentContext } from "./component.ts";
import type { Exit, RunningProcess } from "./process.ts";

/** The delay before a restart doubles from 0.25 s up to 15 s. It falls back once a process was ready for 60 s. */
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 15_000;
const HEALTHY_MS = 60_000;

/** How the process of a component is started and watched. */
export interface ProcessDefinition {
  name: string;
  launch: () => Promise<RunningProcess>;
  /**
   * Watches a process that is ready, until the signal aborts. Resolves with the reason if the process lives but cannot
   * work until it is started again; with undefined if the signal aborted.
   */
  watch?: (signal: AbortSignal) => Promise<string | undefined>;
}

/**
 * A component that this supervisor runs; not yet started. A start takes as long as the process needs. If the context says so,
 * a process that dies is started again until it is ready, however often that takes: a full disk or a busy machine may
 * last for hours.
 */
export function createComponent(process: ProcessDefinition, context: ComponentContext): Component {
  return new SupervisedProcess(process, context);
}

class SupervisedProcess implements Component {
  readonly external = false;
  readonly name: string;
  readonly #process: ProcessDefinition;
  readonly #context: ComponentContext;
  #current: RunningProcess | undefined;
  #failuresInARow = 0;
  /** Aborted when the component is to be down: by stop, kill9, or before the first start. */
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
    if (this.#current) return this.#current.waitReady();
    // During the delay before a restart: two loops must not start it side by side.
    this.#endLife();
    await this.#restarting;
    const { signal } = this.#context;
    if (signal?.aborted) throw new SetupError(`${this.name} was not started: the stack stops`);
    const controller = new AbortController();
    this.#life = controller.signal;
    this.#endLife = () => controller.abort();
    this.#failuresInARow = 0;
    const stop = () => void this.stop();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      const first = await this.#launch();
      await first.waitReady();
      // Only from here on: a first start that fails is its caller's to report.
      this.#supervise(first);
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  stop(): Promise<void> {
    return this.#end("stop");
  }

  kill9(): Promise<void> {
    return this.#end("kill9");
  }

  async waitReady(): Promise<void> {
    if (!this.#current) throw new SetupError(`${this.name} is not running`);
    await this.#current.waitReady();
  }

  async #end(how: "stop" | "kill9"): Promise<void> {
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
      throw new SetupError(`${this.name} was stopped while it started`);
    }
    this.#current = started;
    started.exited.then(() => {
      if (this.#current === started) this.#current = undefined;
    });
    return started;
  }

  /** Looks after a process that is ready now. */
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
    this.#context.log(`${this.name} (pid ${process.pid}) is killed to be started again: ${reason}`);
    await process.kill9();
  }

  #onExit(process: RunningProcess, { code, signal }: Exit, readyAt: number): void {
    const { log, restart } = this.#context;
    if (this.#life.aborted || !restart || this.#current !== undefined) return;
    log(`${this.name} (pid ${process.pid}) died: ${signal ?? `code ${code}`}`);
    if (Date.now() - readyAt > HEALTHY_MS) this.#failuresInARow = 0;
    this.#restarting = this.#restart(this.#life);
  }

  /** Tries until it is ready again, or is to be down. */
  async #restart(life: AbortSignal): Promise<void> {
    const { log } = this.#context;
    while (!life.aborted) {
      const delayMs = Math.min(FIRST_DELAY_MS * 2 ** this.#failuresInARow++, MAX_DELAY_MS);
      log(`${this.name} is started again in ${delayMs / 1000} s`);
      await sleep(delayMs, undefined, { signal: life }).catch(() => undefined);
      if (life.aborted) return;
      try {
        const again = await this.#launch();
        await reportWhileRunning(`${this.name} starts again`, again.waitReady(), log);
        log(`${this.name} runs again`);
        this.#supervise(again);
        return;
      } catch (error) {
        if (!life.aborted) log((error as Error).message);
      }
    }
  }
}
