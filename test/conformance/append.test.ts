import {
  ANY,
  type EventStoreDBClient,
  jsonEvent,
  MaxAppendSizeExceededError,
  NO_STREAM,
  STREAM_EXISTS,
  WrongExpectedVersionError,
} from "@eventstore/db-client";
import { expect } from "chai";
import { getRejection } from "../support/rejection.ts";
import { useResource } from "../support/resources.ts";
import { collect, createEvent, createEvents, createStreamName, startLog } from "./log-under-test.ts";

const CREDENTIALS = { username: "admin", password: "changeit" };

/** Creates events that exceed 1 MiB only together, because KurrentDB also limits the size of each event. */
function createBigEvents() {
  return Array.from({ length: 3 }, () => jsonEvent({ type: "Big", data: { text: "x".repeat(500_000) } }));
}

describe("append", () => {
  const log = useResource(startLog);
  let client: EventStoreDBClient;

  before(() => {
    client = log.createClient();
  });

  async function getWrongVersionError(promise: Promise<unknown>): Promise<WrongExpectedVersionError> {
    const error = await getRejection(promise);
    expect(error).to.be.instanceOf(WrongExpectedVersionError);
    return error as WrongExpectedVersionError;
  }

  it("an append to a new stream returns revision 0 and a log position", async () => {
    const stream = createStreamName();
    const appendResult = await client.appendToStream(stream, createEvent(0), { expectedRevision: NO_STREAM });
    expect(appendResult.success).to.equal(true);
    expect(appendResult.nextExpectedRevision).to.equal(0n);
    const [resolvedEvent] = await collect(client.readAll({ fromPosition: appendResult.position!, maxCount: 1 }));
    expect(resolvedEvent?.event?.streamId).to.equal(stream);
  });

  it("an append that expects the current revision is accepted and increases the revision", async () => {
    const stream = createStreamName();
    await client.appendToStream(stream, createEvent(0), { expectedRevision: NO_STREAM });
    const appendResult = await client.appendToStream(stream, [createEvent(1), createEvent(2)], {
      expectedRevision: 0n,
    });
    expect(appendResult.nextExpectedRevision).to.equal(2n);
  });

  it("an append that expects no stream is refused if the stream exists, and the error contains the current revision", async () => {
    const stream = createStreamName();
    await client.appendToStream(stream, createEvent(0));
    const error = await getWrongVersionError(
      client.appendToStream(stream, createEvent(1), { expectedRevision: NO_STREAM }),
    );
    expect(error.actualVersion).to.equal(0n);
    expect(error.expectedVersion).to.equal(NO_STREAM);
    expect(error.streamName).to.equal(stream);
  });

  it("an append that expects a later revision is refused", async () => {
    const stream = createStreamName();
    await client.appendToStream(stream, createEvents(3));
    const error = await getWrongVersionError(client.appendToStream(stream, createEvent(9), { expectedRevision: 7n }));
    expect(error.actualVersion).to.equal(2n);
    expect(error.expectedVersion).to.equal(7n);
  });

  it("an append that expects an earlier revision is refused", async () => {
    const stream = createStreamName();
    await client.appendToStream(stream, createEvents(3));
    const error = await getWrongVersionError(client.appendToStream(stream, createEvent(9), { expectedRevision: 1n }));
    expect(error.actualVersion).to.equal(2n);
  });

  it("an append that expects an existing stream is accepted only if the stream exists", async () => {
    const stream = createStreamName();
    const error = await getWrongVersionError(
      client.appendToStream(stream, createEvent(0), { expectedRevision: STREAM_EXISTS }),
    );
    expect(error.actualVersion).to.equal(NO_STREAM);
    await client.appendToStream(stream, createEvent(0));
    const appendResult = await client.appendToStream(stream, createEvent(1), { expectedRevision: STREAM_EXISTS });
    expect(appendResult.nextExpectedRevision).to.equal(1n);
  });

  it("a refused append writes no event", async () => {
    const stream = createStreamName();
    await client.appendToStream(stream, createEvent(0));
    await getWrongVersionError(client.appendToStream(stream, createEvents(5), { expectedRevision: 3n }));
    expect(await collect(client.readStream(stream))).to.have.length(1);
  });

  it("exactly one of many concurrent appends at the same revision succeeds", async () => {
    const stream = createStreamName();
    await client.appendToStream(stream, createEvent(0));
    const outcomes = await Promise.allSettled(
      createEvents(32).map((event) => client.appendToStream(stream, event, { expectedRevision: 0n })),
    );
    const rejections = outcomes.filter((result) => result.status === "rejected");
    expect(rejections).to.have.length(31);
    for (const { reason } of rejections) expect(reason).to.be.instanceOf(WrongExpectedVersionError);
    expect(await collect(client.readStream(stream))).to.have.length(2);
  });

  it("concurrent appends that accept any revision are all written, with consecutive revisions", async () => {
    const stream = createStreamName();
    const appendResults = await Promise.all(
      createEvents(64).map((event) => client.appendToStream(stream, event, { expectedRevision: ANY })),
    );
    const revisions = appendResults.map((result) => Number(result.nextExpectedRevision));
    expect(revisions.toSorted((a, b) => a - b)).to.deep.equal(Array.from({ length: 64 }, (_, n) => n));
  });

  it("a read returns 1,000 events of one append in order", async () => {
    const stream = createStreamName();
    const appendResult = await client.appendToStream(stream, createEvents(1000), { expectedRevision: NO_STREAM });
    expect(appendResult.nextExpectedRevision).to.equal(999n);
    const events = await collect(client.readStream(stream));
    expect(events.map(({ event }) => Number(event?.revision))).to.deep.equal(Array.from({ length: 1000 }, (_, n) => n));
    expect(events.map(({ event }) => (event!.data as { n: number }).n)).to.deep.equal(
      Array.from({ length: 1000 }, (_, n) => n),
    );
  });

  it("an append that is sent in several messages is written completely", async () => {
    const stream = createStreamName();
    const appendResult = await client.appendToStream(stream, createEvents(100), { batchAppendSize: 1024 });
    expect(appendResult.nextExpectedRevision).to.equal(99n);
    expect(await collect(client.readStream(stream))).to.have.length(100);
  });

  it("an empty append is accepted and changes nothing", async () => {
    const stream = createStreamName();
    await client.appendToStream(stream, createEvent(0));
    const appendResult = await client.appendToStream(stream, [], { expectedRevision: 0n });
    expect(appendResult.nextExpectedRevision).to.equal(0n);
    expect(await collect(client.readStream(stream))).to.have.length(1);
  });

  it("a read returns an event of almost 1 MiB unchanged", async () => {
    const stream = createStreamName();
    const text = "x".repeat(1_000_000);
    await client.appendToStream(stream, jsonEvent({ type: "Big", data: { text } }));
    const [resolvedEvent] = await collect(client.readStream(stream));
    expect((resolvedEvent!.event!.data as { text: string }).text).to.equal(text);
  });

  it("an oversized append is refused, even if it is split across several messages, and later appends succeed", async () => {
    const stream = createStreamName();
    const bigEvents = createBigEvents();
    const error = await getRejection(client.appendToStream(stream, bigEvents));
    expect(error).to.be.instanceOf(MaxAppendSizeExceededError);
    const batchError = await getRejection(client.appendToStream(stream, bigEvents, { batchAppendSize: 600_000 }));
    expect(batchError).to.be.instanceOf(MaxAppendSizeExceededError);
    const appendResult = await client.appendToStream(stream, createEvent(0), { expectedRevision: NO_STREAM });
    expect(appendResult.nextExpectedRevision).to.equal(0n);
  });

  it("an append with credentials, for which the client uses Streams.Append, is written", async () => {
    const stream = createStreamName();
    const appendResult = await client.appendToStream(stream, [createEvent(0), createEvent(1)], {
      credentials: CREDENTIALS,
    });
    expect(appendResult.nextExpectedRevision).to.equal(1n);
    expect(await collect(client.readStream(stream))).to.have.length(2);
  });

  it("Streams.Append refuses an append with a wrong revision or above the maximum size", async () => {
    const stream = createStreamName();
    await client.appendToStream(stream, createEvent(0));
    const error = await getWrongVersionError(
      client.appendToStream(stream, createEvent(1), { expectedRevision: 5n, credentials: CREDENTIALS }),
    );
    expect(error.actualVersion).to.equal(0n);
    expect(error.expectedVersion).to.equal(5n);
    const sizeError = await getRejection(
      client.appendToStream(stream, createBigEvents(), { credentials: CREDENTIALS }),
    );
    expect(sizeError).to.be.instanceOf(MaxAppendSizeExceededError);
  });

  it("a client with exceptions disabled gets a failed result for a refused append", async () => {
    const stream = createStreamName();
    await client.appendToStream(stream, createEvent(0));
    const lenientClient = log.createClient("throwOnAppendFailure=false");
    const appendResult = await lenientClient.appendToStream(stream, createEvent(1), { expectedRevision: 77n });
    expect(appendResult.success).to.equal(false);
  });
});
