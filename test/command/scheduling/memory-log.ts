import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { requireValidEvent } from "../../../shared/domain/events/stored-event.ts";
import type { EventLog, NewEvent } from "../../../shared/eventstore/log.ts";

/** A fault of one append of a command. `arrives` says whether and when the append takes effect. */
export interface Fault {
  /** Number of the append, from 0. */
  append: number;
  /** `crash`: the command ends, as if its process was killed. `unknown`: the command gets a LogUnavailableError. */
  kind: "crash" | "unknown";
  arrives: "before" | "never" | "later";
}

export class CrashError extends Error {
  override readonly name = "CrashError";
}

/** Steps of concurrent commands. A test chooses the order in which they run. */
export class Steps {
  readonly #waiting: (() => void)[] = [];

  wait(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  /** Runs steps until the work has ended. @param pick returns the index of the next step, below `count` */
  async run(work: Promise<unknown>, pick: (count: number) => number): Promise<void> {
    let hasEnded = false;
    const end = () => {
      hasEnded = true;
    };
    work.then(end, end);
    while (!hasEnded) {
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      const [step] = this.#waiting.splice(pick(this.#waiting.length), 1);
      step?.();
    }
    await work;
  }
}

type ErrorClass = new (message: string) => Error;

export class MemoryLog {
  readonly streams = new Map<string, RecordedEvent[]>();
  #position = 0n;
  readonly #onAppend: () => void;

  constructor(onAppend: () => void) {
    this.#onAppend = onAppend;
  }

  #append(stream: string, expectedRevision: bigint, newEvents: NewEvent[]): bigint | undefined {
    const events = this.streams.get(stream) ?? [];
    const [firstId] = newEvents.map(({ id }) => id);
    // Like a server, the log answers a repetition with success.
    const repeated = events.findIndex(({ id }) => id === firstId);
    if (repeated >= 0) return events[repeated]!.position;
    if (BigInt(events.length) - 1n !== expectedRevision) return undefined;
    for (const { id, event, metadata } of newEvents) {
      requireValidEvent(stream, event, metadata);
      this.#position += 1n;
      const place = { id, stream, revision: BigInt(events.length), position: this.#position };
      events.push({
        ...structuredClone(event),
        ...place,
        metadata: { ...metadata, schemaVersion: 1 },
      } as RecordedEvent);
    }
    this.streams.set(stream, events);
    this.#onAppend();
    return this.#position;
  }

  /**
   * Returns the log of one command. Each request, and the response of each read, is a step.
   *
   * @param errors classes of the errors to throw, because each bundle has its own classes
   */
  connect(steps: Steps, errors: { conflict: ErrorClass; unavailable: ErrorClass }, fault?: Fault): EventLog {
    let isCrashed = false;
    let appendCount = 0;
    const step = async () => {
      await steps.wait();
      if (isCrashed) throw new CrashError();
    };
    const read = async (stream: string) => {
      await step();
      const events = [...(this.streams.get(stream) ?? [])];
      // The answer takes time, too.
      await step();
      return events as never[];
    };
    return {
      read,
      readLast: async (stream: string) => (await read(stream)).at(-1),
      append: async (stream, expectedRevision, newEvents) => {
        await step();
        const current = fault?.append === appendCount ? fault : undefined;
        appendCount += 1;
        if (!current || current.arrives === "before") {
          const position = this.#append(stream, expectedRevision, newEvents);
          if (position === undefined && !current) throw new errors.conflict("another writer appended first");
          if (position !== undefined && !current) return position;
        }
        if (current?.arrives === "later")
          void steps.wait().then(() => this.#append(stream, expectedRevision, newEvents));
        isCrashed = current?.kind === "crash";
        throw isCrashed ? new CrashError() : new errors.unavailable("the outcome is unknown");
      },
    };
  }
}
