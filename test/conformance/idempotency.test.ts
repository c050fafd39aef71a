import {
  ANY,
  type EventStoreDBClient,
  NO_STREAM,
  STREAM_EXISTS,
  WrongExpectedVersionError,
} from "@eventstore/db-client";
import { expect } from "chai";
import { collect, createEvent, createStreamName, getRejection, LogUnderTest } from "./log-under-test.ts";

describe("idempotent retries", function () {
  this.timeout(30_000);
  let log: LogUnderTest;
  let client: EventStoreDBClient;

  before(async () => {
    log = await LogUnderTest.start();
    client = log.createClient();
  });
  after(() => log.stop());

  const [a, b, c] = [0, 1, 2].map((n) => n) as [number, number, number];

  it("a retry at an exact revision gets the result of the first append, even after later appends", async () => {
    const stream = createStreamName();
    await client.appendToStream(stream, createEvent(a), { expectedRevision: NO_STREAM });
    const pair = [createEvent(b), createEvent(c)];
    const first = await client.appendToStream(stream, pair, { expectedRevision: 0n });
    await client.appendToStream(stream, createEvent(9), { expectedRevision: 2n });
    const retry = await client.appendToStream(stream, pair, { expectedRevision: 0n });
    expect(retry.nextExpectedRevision).to.equal(2n);
    expect(retry.position).to.deep.equal(first.position);
    expect(await collect(client.readStream(stream))).to.have.length(4);
  });

  it("a retry that expects no stream gets the result of the first append", async () => {
    const stream = createStreamName();
    const one = createEvent(a);
    const first = await client.appendToStream(stream, one, { expectedRevision: NO_STREAM });
    await client.appendToStream(stream, createEvent(b), { expectedRevision: 0n });
    const retry = await client.appendToStream(stream, one, { expectedRevision: NO_STREAM });
    expect(retry.nextExpectedRevision).to.equal(0n);
    expect(retry.position).to.deep.equal(first.position);
  });

  for (const expectedRevision of [ANY, STREAM_EXISTS] as const) {
    it(`a retry that expects ${expectedRevision} gets the result of the first append`, async () => {
      const stream = createStreamName();
      await client.appendToStream(stream, createEvent(a));
      const pair = [createEvent(b), createEvent(c)];
      const first = await client.appendToStream(stream, pair, { expectedRevision });
      await client.appendToStream(stream, createEvent(9));
      const retry = await client.appendToStream(stream, pair, { expectedRevision });
      expect(retry.nextExpectedRevision).to.equal(2n);
      expect(retry.position).to.deep.equal(first.position);
      expect(await collect(client.readStream(stream))).to.have.length(4);
    });

    it(`a retry that adds a new event and expects ${expectedRevision} is refused`, async () => {
      const stream = createStreamName();
      const one = createEvent(a);
      await client.appendToStream(stream, one);
      const error = await getRejection(client.appendToStream(stream, [one, createEvent(b)], { expectedRevision }));
      expect(error).to.be.instanceOf(WrongExpectedVersionError);
    });
  }

  it("a retry at an exact revision is refused if only some of its events, the first ones, are already stored", async () => {
    const stream = createStreamName();
    const one = createEvent(a);
    await client.appendToStream(stream, one, { expectedRevision: NO_STREAM });
    const longer = client.appendToStream(stream, [one, createEvent(b)], { expectedRevision: NO_STREAM });
    expect(await getRejection(longer)).to.be.instanceOf(WrongExpectedVersionError);
  });

  it("an append at the current revision is written even if the event ids are already stored", async () => {
    const stream = createStreamName();
    const one = createEvent(a);
    await client.appendToStream(stream, one, { expectedRevision: NO_STREAM });
    const result = await client.appendToStream(stream, one, { expectedRevision: 0n });
    expect(result.nextExpectedRevision).to.equal(1n);
  });

  it("two streams can contain the same event id", async () => {
    const one = createEvent(a);
    const [first, second] = [createStreamName(), createStreamName()];
    await client.appendToStream(first, one, { expectedRevision: ANY });
    const result = await client.appendToStream(second, one, { expectedRevision: ANY });
    expect(result.nextExpectedRevision).to.equal(0n);
    expect(await collect(client.readStream(second))).to.have.length(1);
  });

  it("an append that a client sends many times concurrently is written once", async () => {
    const stream = createStreamName();
    const pair = [createEvent(a), createEvent(b)];
    const results = await Promise.all(
      Array.from({ length: 16 }, () => client.appendToStream(stream, pair, { expectedRevision: NO_STREAM })),
    );
    for (const result of results) {
      expect(result.nextExpectedRevision).to.equal(1n);
      expect(result.position).to.deep.equal(results[0]?.position);
    }
    expect(await collect(client.readStream(stream))).to.have.length(2);
  });
});
