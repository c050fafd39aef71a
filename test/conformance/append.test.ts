import {
  ANY,
  jsonEvent,
  MaxAppendSizeExceededError,
  NO_STREAM,
  STREAM_EXISTS,
  WrongExpectedVersionError,
} from "@eventstore/db-client";
import { expect } from "chai";
import { getRejection } from "../support/rejection.ts";
import { collect, createEvent, createEvents, createStreamName, useLog } from "./log-under-test.ts";

const CREDENTIALS = { username: "admin", password: "changeit" };

/** Creates events that exceed 1 MiB together. Each event is smaller, because KurrentDB also limits single events. */
function createBigEvents() {
  return Array.from({ length: 3 }, () => jsonEvent({ type: "Big", data: { text: "x".repeat(500_000) } }));
}

type AppendCase = [
  count: number,
  expectedRevision: bigint | typeof NO_STREAM | typeof STREAM_EXISTS,
  result: { accepted?: bigint; refused?: bigint | typeof NO_STREAM },
];

describe("append", () => {
  const log = useLog();

  async function getWrongVersionError(promise: Promise<unknown>): Promise<WrongExpectedVersionError> {
    const error = await getRejection(promise);
    expect(error).to.be.instanceOf(WrongExpectedVersionError);
    return error as WrongExpectedVersionError;
  }

  it("an append to a new stream returns revision 0 and a log position", async () => {
    const stream = createStreamName();
    const appendResult = await log.client.appendToStream(stream, createEvent(0), { expectedRevision: NO_STREAM });
    expect(appendResult.success).to.equal(true);
    expect(appendResult.nextExpectedRevision).to.equal(0n);
    const [resolvedEvent] = await collect(log.client.readAll({ fromPosition: appendResult.position!, maxCount: 1 }));
    expect(resolvedEvent?.event?.streamId).to.equal(stream);
  });

  /** Number of events in the stream, expected revision, and outcome: the new revision, or the revision in the error. */
  const cases: AppendCase[] = [
    [1, 0n, { accepted: 1n }],
    [3, 2n, { accepted: 3n }],
    [1, STREAM_EXISTS, { accepted: 1n }],
    [0, STREAM_EXISTS, { refused: NO_STREAM }],
    [1, NO_STREAM, { refused: 0n }],
    [3, 7n, { refused: 2n }],
    [3, 1n, { refused: 2n }],
  ];
  for (const [count, expectedRevision, { accepted, refused }] of cases)
    for (const options of [{}, { credentials: CREDENTIALS }])
      it(`${"credentials" in options ? "Streams.Append" : "an append"} that expects ${expectedRevision} is ${accepted === undefined ? "refused" : "accepted"} if the stream has ${count} events`, async () => {
        const stream = createStreamName();
        if (count > 0) await log.client.appendToStream(stream, createEvents(count));
        const append = log.client.appendToStream(stream, createEvents(1), { expectedRevision, ...options });
        if (accepted !== undefined) {
          expect((await append).nextExpectedRevision).to.equal(accepted);
          return;
        }
        const { actualVersion, expectedVersion, streamName } = await getWrongVersionError(append);
        expect([actualVersion, expectedVersion, streamName]).to.deep.equal([refused, expectedRevision, stream]);
        if (count > 0) expect(await collect(log.client.readStream(stream))).to.have.length(count);
      });

  it("exactly one of many concurrent appends at the same revision succeeds", async () => {
    const stream = createStreamName();
    await log.client.appendToStream(stream, createEvent(0));
    const outcomes = await Promise.allSettled(
      createEvents(32).map((event) => log.client.appendToStream(stream, event, { expectedRevision: 0n })),
    );
    const rejections = outcomes.filter((result) => result.status === "rejected");
    expect(rejections).to.have.length(31);
    for (const { reason } of rejections) expect(reason).to.be.instanceOf(WrongExpectedVersionError);
    expect(await collect(log.client.readStream(stream))).to.have.length(2);
  });

  it("concurrent appends that accept any revision are all written, with consecutive revisions", async () => {
    const stream = createStreamName();
    const appendResults = await Promise.all(
      createEvents(64).map((event) => log.client.appendToStream(stream, event, { expectedRevision: ANY })),
    );
    const revisions = appendResults.map((result) => Number(result.nextExpectedRevision));
    expect(revisions.toSorted((a, b) => a - b)).to.deep.equal(Array.from({ length: 64 }, (_, n) => n));
  });

  it("a read returns 1,000 events of one append in order", async () => {
    const stream = createStreamName();
    const appendResult = await log.client.appendToStream(stream, createEvents(1000), { expectedRevision: NO_STREAM });
    expect(appendResult.nextExpectedRevision).to.equal(999n);
    const events = await collect(log.client.readStream(stream));
    expect(events.map(({ event }) => Number(event?.revision))).to.deep.equal(Array.from({ length: 1000 }, (_, n) => n));
    expect(events.map(({ event }) => (event!.data as { n: number }).n)).to.deep.equal(
      Array.from({ length: 1000 }, (_, n) => n),
    );
  });

  it("an append that is sent in several messages is written completely", async () => {
    const stream = createStreamName();
    const appendResult = await log.client.appendToStream(stream, createEvents(100), { batchAppendSize: 1024 });
    expect(appendResult.nextExpectedRevision).to.equal(99n);
    expect(await collect(log.client.readStream(stream))).to.have.length(100);
  });

  it("an empty append is accepted and changes nothing", async () => {
    const stream = createStreamName();
    await log.client.appendToStream(stream, createEvent(0));
    const appendResult = await log.client.appendToStream(stream, [], { expectedRevision: 0n });
    expect(appendResult.nextExpectedRevision).to.equal(0n);
    expect(await collect(log.client.readStream(stream))).to.have.length(1);
  });

  it("a read returns an event of almost 1 MiB unchanged", async () => {
    const stream = createStreamName();
    const text = "x".repeat(1_000_000);
    await log.client.appendToStream(stream, jsonEvent({ type: "Big", data: { text } }));
    const [resolvedEvent] = await collect(log.client.readStream(stream));
    expect((resolvedEvent!.event!.data as { text: string }).text).to.equal(text);
  });

  it("an oversized append is refused, even if it is split across several messages, and later appends succeed", async () => {
    const stream = createStreamName();
    const bigEvents = createBigEvents();
    const error = await getRejection(log.client.appendToStream(stream, bigEvents));
    expect(error).to.be.instanceOf(MaxAppendSizeExceededError);
    const batchError = await getRejection(log.client.appendToStream(stream, bigEvents, { batchAppendSize: 600_000 }));
    expect(batchError).to.be.instanceOf(MaxAppendSizeExceededError);
    const appendResult = await log.client.appendToStream(stream, createEvent(0), { expectedRevision: NO_STREAM });
    expect(appendResult.nextExpectedRevision).to.equal(0n);
  });

  it("an append with credentials, for which the client uses Streams.Append, is written", async () => {
    const stream = createStreamName();
    const appendResult = await log.client.appendToStream(stream, [createEvent(0), createEvent(1)], {
      credentials: CREDENTIALS,
    });
    expect(appendResult.nextExpectedRevision).to.equal(1n);
    expect(await collect(log.client.readStream(stream))).to.have.length(2);
  });

  it("Streams.Append refuses an append above the maximum size", async () => {
    const append = log.client.appendToStream(createStreamName(), createBigEvents(), { credentials: CREDENTIALS });
    expect(await getRejection(append)).to.be.instanceOf(MaxAppendSizeExceededError);
  });

  it("a client with exceptions disabled gets a failed result for a refused append", async () => {
    const stream = createStreamName();
    await log.client.appendToStream(stream, createEvent(0));
    const lenientClient = log.createClient("throwOnAppendFailure=false");
    const appendResult = await lenientClient.appendToStream(stream, createEvent(1), { expectedRevision: 77n });
    expect(appendResult.success).to.equal(false);
  });
});
