/**
 * Runs random sequences of appends, deletions and reads. Compares the results with those of a simple model of the log.
 */

import {
  ANY,
  type EventStoreDBClient,
  NO_STREAM,
  STREAM_EXISTS,
  StreamDeletedError,
  StreamNotFoundError,
  WrongExpectedVersionError,
} from "@eventstore/db-client";
import { expect } from "chai";
import fc from "fast-check";
import { collect, createEvent, createStreamName, useLog } from "./log-under-test.ts";

type ExpectedKind = typeof ANY | typeof NO_STREAM | typeof STREAM_EXISTS | "current" | "behind" | "ahead";

type Step =
  | {
      readonly operation: "append";
      readonly stream: number;
      readonly count: number;
      readonly expectedKind: ExpectedKind;
    }
  | { readonly operation: "retry"; readonly stream: number }
  | {
      readonly operation: "read";
      readonly stream: number;
      readonly isBackwards: boolean;
      readonly fromRevision: number;
    }
  | { readonly operation: "delete" | "tombstone"; readonly stream: number };

/** Expected state of a stream. `ids` contains the event ids by revision. */
interface StreamModel {
  readonly name: string;
  readonly ids: string[];
  firstVisibleRevision: number;
  isSoftDeleted: boolean;
  isTombstoned: boolean;
  lastAppend: { readonly events: ReturnType<typeof createEvent>[]; readonly lastRevision: bigint } | undefined;
}

const STREAM_COUNT = 3;
const stream = fc.nat({ max: STREAM_COUNT - 1 });
const expectedKindArbitrary = fc.constantFrom<ExpectedKind>(
  ANY,
  NO_STREAM,
  STREAM_EXISTS,
  "current",
  "current",
  "behind",
  "ahead",
);
const stepArbitrary: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 18,
    arbitrary: fc.record({
      operation: fc.constant("append" as const),
      stream,
      count: fc.integer({ min: 1, max: 4 }),
      expectedKind: expectedKindArbitrary,
    }),
  },
  { weight: 6, arbitrary: fc.record({ operation: fc.constant("retry" as const), stream }) },
  {
    weight: 12,
    arbitrary: fc.record({
      operation: fc.constant("read" as const),
      stream,
      isBackwards: fc.boolean(),
      fromRevision: fc.nat({ max: 12 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ operation: fc.constant("delete" as const), stream }) },
  { weight: 1, arbitrary: fc.record({ operation: fc.constant("tombstone" as const), stream }) },
);

/** Returns the value of a promise, or the name of its error. */
async function getOutcome<T>(promise: Promise<T>): Promise<T | string> {
  try {
    return await promise;
  } catch (error) {
    for (const errorClass of [WrongExpectedVersionError, StreamDeletedError, StreamNotFoundError])
      if (error instanceof errorClass) return errorClass.name;
    throw error;
  }
}

class SequenceRun {
  readonly #client: EventStoreDBClient;
  readonly #models: StreamModel[];
  #counter = 0;

  constructor(client: EventStoreDBClient) {
    this.#client = client;
    this.#models = Array.from({ length: STREAM_COUNT }, () => ({
      name: createStreamName("model"),
      ids: [],
      firstVisibleRevision: 0,
      isSoftDeleted: false,
      isTombstoned: false,
      lastAppend: undefined,
    }));
  }

  async runStep(step: Step): Promise<void> {
    const model = this.#models[step.stream]!;
    if (step.operation === "append") await this.#append(model, step.count, step.expectedKind);
    else if (step.operation === "retry") await this.#retry(model);
    else if (step.operation === "read") await this.#read(model, step.isBackwards, step.fromRevision);
    else await this.#remove(model, step.operation);
  }

  /** Compares all visible events after a sequence of operations. */
  async finish(): Promise<void> {
    for (const model of this.#models) await this.#read(model, false, 0);
  }

  async #append(model: StreamModel, count: number, expectedKind: ExpectedKind): Promise<void> {
    const lastRevision = model.ids.length - 1;
    const revision = toRevision(expectedKind, lastRevision);
    const events = Array.from({ length: count }, () => createEvent(this.#counter++));
    const expectedOutcome = predictAppend(model, revision, lastRevision, count);
    const outcome = await getOutcome(
      this.#client
        .appendToStream(model.name, events, { expectedRevision: revision })
        .then((result) => result.nextExpectedRevision),
    );
    expect(outcome, `append expecting ${revision} at ${lastRevision}`).to.equal(expectedOutcome);
    if (typeof expectedOutcome === "string") return;
    if (model.isSoftDeleted) model.firstVisibleRevision = model.ids.length;
    model.isSoftDeleted = false;
    model.lastAppend = { events, lastRevision: BigInt(lastRevision) };
    model.ids.push(...events.map(({ id }) => id));
  }

  async #retry(model: StreamModel): Promise<void> {
    const { lastAppend } = model;
    if (lastAppend === undefined) return;
    const { events, lastRevision } = lastAppend;
    const expectedRevision = lastRevision < 0n ? NO_STREAM : lastRevision;
    const outcome = await getOutcome(
      this.#client
        .appendToStream(model.name, events, { expectedRevision })
        .then((result) => result.nextExpectedRevision),
    );
    const expectedOutcome = model.isTombstoned ? StreamDeletedError.name : lastRevision + BigInt(events.length);
    expect(outcome, "retry").to.equal(expectedOutcome);
  }

  async #read(model: StreamModel, isBackwards: boolean, fromRevision: number): Promise<void> {
    const events = this.#client.readStream(model.name, {
      direction: isBackwards ? "backwards" : "forwards",
      fromRevision: BigInt(fromRevision),
    });
    const outcome = await getOutcome(
      collect(events).then((resolvedEvents) => resolvedEvents.map(({ event }) => event!.id)),
    );
    expect(outcome, `read ${isBackwards ? "backwards" : "forwards"} from ${fromRevision}`).to.deep.equal(
      predictRead(model, isBackwards, fromRevision),
    );
  }

  async #remove(model: StreamModel, kind: "delete" | "tombstone"): Promise<void> {
    const deletionPromise =
      kind === "delete" ? this.#client.deleteStream(model.name) : this.#client.tombstoneStream(model.name);
    const outcome = await getOutcome(deletionPromise.then(() => "done"));
    const isMissing = kind === "delete" && model.ids.length === 0;
    const expectedOutcome = isMissing ? WrongExpectedVersionError.name : "done";
    expect(outcome, kind).to.equal(model.isTombstoned ? StreamDeletedError.name : expectedOutcome);
    if (outcome !== "done") return;
    if (kind === "delete") model.isSoftDeleted = true;
    else model.isTombstoned = true;
  }
}

function toRevision(expectedKind: ExpectedKind, lastRevision: number) {
  if (expectedKind === "current") return lastRevision < 0 ? NO_STREAM : BigInt(lastRevision);
  if (expectedKind === "behind") return lastRevision < 1 ? NO_STREAM : BigInt(lastRevision - 1);
  return expectedKind === "ahead" ? BigInt(lastRevision + 3) : expectedKind;
}

function predictAppend(
  model: StreamModel,
  revision: bigint | typeof ANY | typeof NO_STREAM | typeof STREAM_EXISTS,
  lastRevision: number,
  count: number,
): bigint | string {
  const nextRevision = BigInt(lastRevision + count);
  if (model.isTombstoned) return StreamDeletedError.name;
  if (revision === ANY) return nextRevision;
  if (revision === STREAM_EXISTS) {
    if (model.isSoftDeleted) return StreamDeletedError.name;
    return lastRevision < 0 ? WrongExpectedVersionError.name : nextRevision;
  }
  if (revision === NO_STREAM)
    return lastRevision < 0 || model.isSoftDeleted ? nextRevision : WrongExpectedVersionError.name;
  return revision === BigInt(lastRevision) ? nextRevision : WrongExpectedVersionError.name;
}

function predictRead(model: StreamModel, isBackwards: boolean, fromRevision: number): string[] | string {
  if (model.isTombstoned) return StreamDeletedError.name;
  if (model.ids.length === 0 || model.isSoftDeleted) return StreamNotFoundError.name;
  const visibleEvents = model.ids.map((id, revision) => ({ id, revision })).slice(model.firstVisibleRevision);
  const expectedEvents = isBackwards
    ? visibleEvents.filter(({ revision }) => revision <= fromRevision).toReversed()
    : visibleEvents.filter(({ revision }) => revision >= fromRevision);
  return expectedEvents.map(({ id }) => id);
}

describe("random sequences", () => {
  const log = useLog();

  it("random sequences of appends, deletions and reads have the results that a model of the log predicts", async () => {
    const { client } = log;
    await fc.assert(
      fc.asyncProperty(fc.array(stepArbitrary, { minLength: 5, maxLength: 40 }), async (steps) => {
        const sequenceRun = new SequenceRun(client);
        for (const step of steps) await sequenceRun.runStep(step);
        await sequenceRun.finish();
      }),
      { numRuns: 60 },
    );
  });
});
