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
import { collect, createEvent, createStreamName, LogUnderTest } from "./log-under-test.ts";

type ExpectedKind = typeof ANY | typeof NO_STREAM | typeof STREAM_EXISTS | "current" | "behind" | "ahead";

type Step =
  | {
      readonly do: "append";
      readonly stream: number;
      readonly count: number;
      readonly expected: ExpectedKind;
    }
  | { readonly do: "retry"; readonly stream: number }
  | { readonly do: "read"; readonly stream: number; readonly backwards: boolean; readonly from: number }
  | { readonly do: "delete" | "tombstone"; readonly stream: number };

/** Expected state of a stream. `ids` contains the event ids by revision. */
interface StreamModel {
  readonly name: string;
  readonly ids: string[];
  hiddenBefore: number;
  softDeleted: boolean;
  tombstoned: boolean;
  lastAppend: { readonly events: ReturnType<typeof createEvent>[]; readonly expected: bigint } | undefined;
}

const STREAM_COUNT = 3;
const stream = fc.nat({ max: STREAM_COUNT - 1 });
const expectedRevision = fc.constantFrom<ExpectedKind>(
  ANY,
  NO_STREAM,
  STREAM_EXISTS,
  "current",
  "current",
  "behind",
  "ahead",
);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 18,
    arbitrary: fc.record({
      do: fc.constant("append" as const),
      stream,
      count: fc.integer({ min: 1, max: 4 }),
      expected: expectedRevision,
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("retry" as const), stream }) },
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constant("read" as const),
      stream,
      backwards: fc.boolean(),
      from: fc.nat({ max: 12 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("delete" as const), stream }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("tombstone" as const), stream }) },
);

/** Returns the value of a promise, or the name of its error. */
async function getOutcome<T>(promise: Promise<T>): Promise<T | string> {
  try {
    return await promise;
  } catch (error) {
    for (const kind of [WrongExpectedVersionError, StreamDeletedError, StreamNotFoundError]) {
      if (error instanceof kind) return kind.name;
    }
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
      hiddenBefore: 0,
      softDeleted: false,
      tombstoned: false,
      lastAppend: undefined,
    }));
  }

  async step(one: Step): Promise<void> {
    const model = this.#models[one.stream]!;
    if (one.do === "append") await this.#append(model, one.count, one.expected);
    else if (one.do === "retry") await this.#retry(model);
    else if (one.do === "read") await this.#read(model, one.backwards, one.from);
    else await this.#remove(model, one.do);
  }

  /** Compares all visible events after a sequence of operations. */
  async finish(): Promise<void> {
    for (const model of this.#models) await this.#read(model, false, 0);
  }

  async #append(model: StreamModel, count: number, expected: ExpectedKind): Promise<void> {
    const last = model.ids.length - 1;
    const revision = toRevision(expected, last);
    const proposed = Array.from({ length: count }, () => createEvent(this.#counter++));
    const wanted = predictAppend(model, revision, last, count);
    const got = await getOutcome(
      this.#client
        .appendToStream(model.name, proposed, { expectedRevision: revision })
        .then((result) => result.nextExpectedRevision),
    );
    expect(got, `append expecting ${revision} at ${last}`).to.equal(wanted);
    if (typeof wanted === "string") return;
    if (model.softDeleted) model.hiddenBefore = model.ids.length;
    model.softDeleted = false;
    model.lastAppend = { events: proposed, expected: BigInt(last) };
    model.ids.push(...proposed.map(({ id }) => id));
  }

  async #retry(model: StreamModel): Promise<void> {
    const { lastAppend } = model;
    if (lastAppend === undefined) return;
    const { events: proposed, expected } = lastAppend;
    const expectedRevision = expected < 0n ? NO_STREAM : expected;
    const got = await getOutcome(
      this.#client
        .appendToStream(model.name, proposed, { expectedRevision })
        .then((result) => result.nextExpectedRevision),
    );
    const wanted = model.tombstoned ? StreamDeletedError.name : expected + BigInt(proposed.length);
    expect(got, "retry").to.equal(wanted);
  }

  async #read(model: StreamModel, backwards: boolean, from: number): Promise<void> {
    const reading = this.#client.readStream(model.name, {
      direction: backwards ? "backwards" : "forwards",
      fromRevision: BigInt(from),
    });
    const got = await getOutcome(collect(reading).then((all) => all.map(({ event }) => event!.id)));
    expect(got, `read ${backwards ? "backwards" : "forwards"} from ${from}`).to.deep.equal(
      predictRead(model, backwards, from),
    );
  }

  async #remove(model: StreamModel, how: "delete" | "tombstone"): Promise<void> {
    const done = how === "delete" ? this.#client.deleteStream(model.name) : this.#client.tombstoneStream(model.name);
    const got = await getOutcome(done.then(() => "done"));
    const missing = how === "delete" && model.ids.length === 0;
    const refused = missing ? WrongExpectedVersionError.name : "done";
    expect(got, how).to.equal(model.tombstoned ? StreamDeletedError.name : refused);
    if (got !== "done") return;
    if (how === "delete") model.softDeleted = true;
    else model.tombstoned = true;
  }
}

function toRevision(expected: ExpectedKind, last: number) {
  if (expected === "current") return last < 0 ? NO_STREAM : BigInt(last);
  if (expected === "behind") return last < 1 ? NO_STREAM : BigInt(last - 1);
  return expected === "ahead" ? BigInt(last + 3) : expected;
}

function predictAppend(
  model: StreamModel,
  revision: bigint | typeof ANY | typeof NO_STREAM | typeof STREAM_EXISTS,
  last: number,
  count: number,
): bigint | string {
  const written = BigInt(last + count);
  if (model.tombstoned) return StreamDeletedError.name;
  if (revision === ANY) return written;
  if (revision === STREAM_EXISTS) {
    if (model.softDeleted) return StreamDeletedError.name;
    return last < 0 ? WrongExpectedVersionError.name : written;
  }
  if (revision === NO_STREAM) return last < 0 || model.softDeleted ? written : WrongExpectedVersionError.name;
  return revision === BigInt(last) ? written : WrongExpectedVersionError.name;
}

function predictRead(model: StreamModel, backwards: boolean, from: number): string[] | string {
  if (model.tombstoned) return StreamDeletedError.name;
  if (model.ids.length === 0 || model.softDeleted) return StreamNotFoundError.name;
  const visible = model.ids.map((id, revision) => ({ id, revision })).slice(model.hiddenBefore);
  const wanted = backwards
    ? visible.filter(({ revision }) => revision <= from).toReversed()
    : visible.filter(({ revision }) => revision >= from);
  return wanted.map(({ id }) => id);
}

describe("random sequences", function () {
  this.timeout(120_000);
  let log: LogUnderTest;

  before(async () => {
    log = await LogUnderTest.start();
  });
  after(() => log.stop());

  it("random sequences of appends, deletions and reads have the results that a model of the log predicts", async () => {
    const client = log.createClient();
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
        const run = new SequenceRun(client);
        for (const one of steps) await run.step(one);
        await run.finish();
      }),
      { numRuns: 60 },
    );
  });
});
