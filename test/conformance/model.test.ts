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

/** Expected state of a stream. */
interface StreamModel {
  readonly name: string;
  /** Event ids by revision. */
  readonly ids: string[];
  firstVisibleRevision: number;
  isSoftDeleted: boolean;
  isTombstoned: boolean;
  lastAppend?: { readonly events: ReturnType<typeof createEvent>[]; readonly lastRevision: bigint };
}

const STREAM_COUNT = 3;

const stepArbitrary = fc.record({
  operation: fc.oneof(
    { weight: 18, arbitrary: fc.constant("append" as const) },
    { weight: 6, arbitrary: fc.constant("retry" as const) },
    { weight: 12, arbitrary: fc.constant("read" as const) },
    { weight: 3, arbitrary: fc.constant("delete" as const) },
    { weight: 1, arbitrary: fc.constant("tombstone" as const) },
  ),
  stream: fc.nat({ max: STREAM_COUNT - 1 }),
  count: fc.integer({ min: 1, max: 4 }),
  expected: fc.constantFrom(ANY, NO_STREAM, STREAM_EXISTS, "current", "current", "behind", "ahead"),
  isBackwards: fc.boolean(),
  fromRevision: fc.nat({ max: 12 }).map(BigInt),
});

type Step = typeof stepArbitrary extends fc.Arbitrary<infer Value> ? Value : never;

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

const operations = { append, retry, read, delete: remove, tombstone: remove };

async function append(client: EventStoreDBClient, model: StreamModel, { count, expected }: Step): Promise<void> {
  const lastRevision = model.ids.length - 1;
  const expectedRevision = toRevision(expected, lastRevision);
  const events = Array.from({ length: count }, (_, n) => createEvent(n));
  const expectedOutcome = predictAppend(model, expectedRevision, lastRevision, count);
  const outcome = await getOutcome(
    client.appendToStream(model.name, events, { expectedRevision }).then((result) => result.nextExpectedRevision),
  );
  expect(outcome, `append expecting ${expectedRevision} at ${lastRevision}`).to.equal(expectedOutcome);
  if (typeof expectedOutcome === "string") return;
  if (model.isSoftDeleted) model.firstVisibleRevision = model.ids.length;
  model.isSoftDeleted = false;
  model.lastAppend = { events, lastRevision: BigInt(lastRevision) };
  model.ids.push(...events.map(({ id }) => id));
}

async function retry(client: EventStoreDBClient, { name, lastAppend, isTombstoned }: StreamModel): Promise<void> {
  if (lastAppend === undefined) return;
  const { events, lastRevision } = lastAppend;
  const expectedRevision = lastRevision < 0n ? NO_STREAM : lastRevision;
  const outcome = await getOutcome(
    client.appendToStream(name, events, { expectedRevision }).then((result) => result.nextExpectedRevision),
  );
  expect(outcome, "retry").to.equal(isTombstoned ? StreamDeletedError.name : lastRevision + BigInt(events.length));
}

async function read(
  client: EventStoreDBClient,
  model: StreamModel,
  { isBackwards, fromRevision }: Pick<Step, "isBackwards" | "fromRevision">,
): Promise<void> {
  const direction = isBackwards ? "backwards" : "forwards";
  const outcome = await getOutcome(collect(client.readStream(model.name, { direction, fromRevision })));
  const ids = typeof outcome === "string" ? outcome : outcome.map(({ event }) => event!.id);
  expect(ids, `read ${direction} from ${fromRevision}`).to.deep.equal(predictRead(model, isBackwards, fromRevision));
}

async function remove(client: EventStoreDBClient, model: StreamModel, { operation }: Step): Promise<void> {
  const isSoft = operation === "delete";
  const deletionPromise = isSoft ? client.deleteStream(model.name) : client.tombstoneStream(model.name);
  const outcome = await getOutcome(deletionPromise.then(() => "done"));
  const expectedOutcome = isSoft && model.ids.length === 0 ? WrongExpectedVersionError.name : "done";
  expect(outcome, operation).to.equal(model.isTombstoned ? StreamDeletedError.name : expectedOutcome);
  if (outcome === "done") model[isSoft ? "isSoftDeleted" : "isTombstoned"] = true;
}

function toRevision(expected: Step["expected"], lastRevision: number) {
  if (expected === "current") return lastRevision < 0 ? NO_STREAM : BigInt(lastRevision);
  if (expected === "behind") return lastRevision < 1 ? NO_STREAM : BigInt(lastRevision - 1);
  return expected === "ahead" ? BigInt(lastRevision + 3) : expected;
}

function predictAppend(
  { isSoftDeleted, isTombstoned }: StreamModel,
  revision: ReturnType<typeof toRevision>,
  lastRevision: number,
  count: number,
): bigint | string {
  const nextRevision = BigInt(lastRevision + count);
  if (isTombstoned) return StreamDeletedError.name;
  if (revision === ANY) return nextRevision;
  if (revision === STREAM_EXISTS && isSoftDeleted) return StreamDeletedError.name;
  const isNew = lastRevision < 0 || (isSoftDeleted && revision === NO_STREAM);
  const isExpected = revision === STREAM_EXISTS ? !isNew : revision === (isNew ? NO_STREAM : BigInt(lastRevision));
  return isExpected ? nextRevision : WrongExpectedVersionError.name;
}

function predictRead(model: StreamModel, isBackwards: boolean, fromRevision: bigint): string[] | string {
  if (model.isTombstoned) return StreamDeletedError.name;
  if (model.ids.length === 0 || model.isSoftDeleted) return StreamNotFoundError.name;
  const start = Math.max(model.firstVisibleRevision, isBackwards ? 0 : Number(fromRevision));
  const end = isBackwards ? Number(fromRevision) + 1 : model.ids.length;
  const ids = model.ids.slice(start, Math.max(start, end));
  return isBackwards ? ids.reverse() : ids;
}

describe("random sequences", () => {
  const log = useLog();

  it("random sequences of appends, deletions and reads have the results that a model of the log predicts", () =>
    fc.assert(
      fc.asyncProperty(fc.array(stepArbitrary, { minLength: 5, maxLength: 40 }), async (steps) => {
        const models = Array.from(
          { length: STREAM_COUNT },
          (): StreamModel => ({
            name: createStreamName("model"),
            ids: [],
            firstVisibleRevision: 0,
            isSoftDeleted: false,
            isTombstoned: false,
          }),
        );
        for (const step of steps) await operations[step.operation](log.client, models[step.stream]!, step);
        for (const model of models) await read(log.client, model, { isBackwards: false, fromRevision: 0n });
      }),
      { numRuns: 60 },
    ));
});
