import { createHash } from "node:crypto";
import { v5 as uuidv5 } from "uuid";
import {
  AlreadyAppliedError,
  createLineLog,
  createStreamCache,
  type StreamCache,
} from "../../../command/cli/import/line-log.ts";
import type { CommandContext } from "../../../command/handling/handle.ts";
import { createOperatorContext } from "../../../command/handling/operator.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { awaitAll } from "../servers/servers.ts";

export const DEMO_OPERATOR = { type: "operator", id: "demo-data" } as const;

export interface Step {
  /** Unique, and the same in every run. */
  name: string;
  /** Milliseconds since 1970. */
  timeMs: number;
  run(log: EventLog, context: CommandContext): Promise<unknown>;
}

export type StepSequence = Step[];

export type Operation<Input> = (log: EventLog, input: Input, context: CommandContext) => Promise<unknown>;

/** Number of sequences that run in parallel, so that the log can commit their appends in groups. */
const CONCURRENCY = 32;

export function createStep<Input>(
  name: string,
  timeMs: number,
  operation: Operation<Input>,
  input: NoInfer<Input>,
): Step {
  return { name, timeMs, run: (log, context) => operation(log, input, context) };
}

/**
 * Runs the phases in order, and the sequences of a phase in parallel. Skips steps that an earlier run completed.
 *
 * @param signal aborted to stop the run before the next step
 * @throws the signal's reason, if the signal is aborted before the last step
 */
export async function runSteps(log: EventLog, phases: StepSequence[][], signal?: AbortSignal): Promise<void> {
  // Nobody else changes the streams.
  const cache = createStreamCache(log, "");
  for (const phase of phases) {
    const remainingSequences = [...phase];
    const runSequences = async () => {
      for (let sequence = remainingSequences.shift(); sequence; sequence = remainingSequences.shift()) {
        for (const step of sequence) {
          signal?.throwIfAborted();
          await runStep(cache, step).catch((error: unknown) => {
            remainingSequences.length = 0; // prevents the remaining sequences from starting
            throw error;
          });
        }
      }
    };
    await awaitAll(Array.from({ length: CONCURRENCY }, runSequences));
  }
}

async function runStep(cache: StreamCache, { name, timeMs, run }: Step): Promise<void> {
  const causationId = deriveDemoId("step", name);
  const stepLog = createLineLog(cache, undefined, (events) => {
    if (events.some(({ metadata }) => metadata.$causationId === causationId)) throw new AlreadyAppliedError();
  });
  try {
    await run(stepLog, {
      ...createOperatorContext(DEMO_OPERATOR, timeMs),
      correlationId: deriveDemoId("seeding"),
      causationId,
    });
  } catch (error) {
    if (!(error instanceof AlreadyAppliedError))
      throw new Error(`Demo data step "${name}" failed: ${String(error)}`, { cause: error });
  }
}

const NAMESPACE = "5c1d0c0e-9d0b-4f0f-8a55-1c7a2d6f4b21";

/** Derives a UUID that depends only on the given names. */
export function deriveDemoId(...names: (string | number)[]): string {
  return uuidv5(names.join("\n"), NAMESPACE);
}

export function createPicker(...seed: (string | number)[]) {
  let drawCount = 0;
  const drawIntegerBelow = (bound: number) => {
    drawCount += 1;
    const digest = createHash("sha256")
      .update([...seed, drawCount].join("\n"))
      .digest();
    return digest.readUInt32BE(0) % bound;
  };
  return {
    pickIntegerBelow: drawIntegerBelow,
    pick<Item>(items: readonly Item[]): Item {
      const item = items[drawIntegerBelow(items.length)];
      if (item === undefined) throw new Error("The list to choose from is empty.");
      return item;
    },
    /** Returns true with this probability, from 0 to 1. */
    pickBoolean: (probability: number) => drawIntegerBelow(1000) < probability * 1000,
  };
}
