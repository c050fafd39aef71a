import { setTimeout as sleep } from "node:timers/promises";
import type { Part, PartContext } from "./part.ts";
import type { Exit, RunningProcess } from "./process.ts";
import { SetupError } from "./setup-error.ts";

/** Restarts wait 0.25 s, doubling up to 15 s; ten failures in a row end it. A life of 60 s counts as a success. */
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 15_000;
const MAX_FAILURES = 10;
const HEALTHY_MS = 60_000;

/** A part that this supervisor runs; not yet started. It is started again when it dies, if the context says so. */
export function createPart(name: string, launch: () => Promise<RunningProcess>, context: PartContext): Part {
  return new SupervisedPart(name, launch, context);
}

class SupervisedPart implements Part {
  readonly external = false;
  readonly name: string;
  readonly #launchProcess: () => Promise<RunningProcess>;
  readonly #context: PartContext;
  #current: RunningProcess | undefined;
  #failuresInARow = 0;
  /** Aborted when the part is to be down: by stop, kill9, or before the first start. */
  #life: AbortSignal = AbortSignal.abort();
  #endLife: () => void = () => undefined;

  constructor(name: string, launchProcess: () => Promise<RunningProcess>, context: PartContext) {
    this.name = name;
    this.#launchProcess = launchProcess;
    this.#context = context;
  }

  get pid(): number | undefined {
    return this.#current?.pid;
  }

  async start(): Promise<void> {
    if (this.#current) return this.#current.waitReady();
    const controller = new AbortController();
    this.#life = controller.signal;
    this.#endLife = () => controller.abort();
    this.#failuresInARow = 0;
    const startedAt = Date.now();
    const first = await this.#launch();
    await first.waitReady();
    // Only from here on: a first start that fails is its caller's to report.
    first.exited.then((exit) => this.#onExit(first, exit, startedAt));
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
    const started = await this.#launchProcess();
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

  #onExit(process: RunningProcess, { code, signal }: Exit, startedAt: number): void {
    const { log, onGivenUp } = this.#context;
    if (this.#life.aborted || !onGivenUp || this.#current !== undefined) return;
    log(`${this.name} (pid ${process.pid}) died: ${signal ?? `code ${code}`}`);
    if (Date.now() - startedAt > HEALTHY_MS) this.#failuresInARow = 0;
    this.#restart(this.#life, onGivenUp);
  }

  /** Tries until it is ready again, is to be down, or has failed too often. */
  async #restart(life: AbortSignal, onGivenUp: (message: string) => void): Promise<void> {
    const { log } = this.#context;
    while (this.#failuresInARow < MAX_FAILURES) {
      const delayMs = Math.min(FIRST_DELAY_MS * 2 ** this.#failuresInARow++, MAX_DELAY_MS);
      log(`${this.name} is started again in ${delayMs / 1000} s`);
      await sleep(delayMs, undefined, { signal: life }).catch(() => undefined);
      if (life.aborted) return;
      try {
        const startedAt = Date.now();
        const again = await this.#launch();
        await again.waitReady();
        log(`${this.name} runs again`);
        again.exited.then((exit) => this.#onExit(again, exit, startedAt));
        return;
      } catch (error) {
        if (life.aborted) return;
        log((error as Error).message);
      }
    }
    onGivenUp(`${this.name} failed ${MAX_FAILURES} times in a row; see its log`);
  }
}
