import {
  AlreadyAppliedError,
  createRecognizingEventLog,
} from "../../../command/cli/import/idempotent-log.ts";
import type { CommandContext } from "../../../command/handling/handle.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { awaitAll } from "../servers/servers.ts";
import { demoId } from "./random.ts";

/** One command of the demo data. */
export interface Step {
  /** Unique name, the same at every run. */
  name: string;
  /** Time of the event, in milliseconds since 1970. */
  at: number;
  run(log: EventLog, context: CommandContext): Promise<unknown>;
}

/** Steps that run in order. */
export type Chain = Step[];

/** Number of parallel appends. The log commits them in groups. */
const CONCURRENCY = 32;

/**
 * Runs the steps: phase after phase, the chains of a phase in parallel. A step that an earlier run completed is skipped.
 *
 * @param onStep called after each step with the number of finished steps and of all steps
 * @param signal aborted to begin no further step
 * @throws the signal's reason if it is aborted before the last step
 */
export async function runSteps(
  log: EventLog,
  phases: Chain[][],
  onStep: (done: number, all: number) => void,
  signal?: AbortSignal,
): Promise<void> {
  const all = phases.flat(2).length;
  let done = 0;
  for (const phase of phases) {
    const waiting = [...phase];
    const work = async () => {
      for (let chain = waiting.shift(); chain; chain = waiting.shift()) {
        for (const step of chain) {
          signal?.throwIfAborted();
          await runStep(log, step).catch((error: unknown) => {
            waiting.length = 0; // start no further chain
            throw error;
          });
          done += 1;
          onStep(done, all);
        }
      }
    };
    await awaitAll(Array.from({ length: CONCURRENCY }, work));
  }
}

async function runStep(log: EventLog, { name, at, run }: Step): Promise<void> {
  const causationId = demoId("step", name);
  const context: CommandContext = {
    actor: { type: "operator", id: "demo-data" },
    clinicId: null,
    environment: null,
    correlationId: demoId("seeding"),
    causationId,
    now: at,
  };
  try {
    await run(
      createRecognizingEventLog(log, ({ $causationId }) => $causationId === causationId),
      context,
    );
  } catch (error) {
    if (!(error instanceof AlreadyAppliedError))
      throw new Error(`Demo data, step "${name}": ${String(error)}`, { cause: error });
  }
}
