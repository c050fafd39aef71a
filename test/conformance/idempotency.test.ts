import { ANY, NO_STREAM, STREAM_EXISTS, WrongExpectedVersionError } from "@eventstore/db-client";
import { expect } from "chai";
import { getRejection } from "../support/rejection.ts";
import { collect, createEvent, createStreamName, useLog } from "./log-under-test.ts";

describe("idempotent retries", () => {
  const log = useLog();

  it("a retry at an exact revision gets the result of the first append, even after later appends", async () => {
    const stream = createStreamName();
    await log.client.appendToStream(stream, createEvent(0), { expectedRevision: NO_STREAM });
    const events = [createEvent(1), createEvent(2)];
    const firstResult = await log.client.appendToStream(stream, events, { expectedRevision: 0n });
    await log.client.appendToStream(stream, createEvent(9), { expectedRevision: 2n });
    const retryResult = await log.client.appendToStream(stream, events, { expectedRevision: 0n });
    expect(retryResult.nextExpectedRevision).to.equal(2n);
    expect(retryResult.position).to.deep.equal(firstResult.position);
    expect(await collect(log.client.readStream(stream))).to.have.length(4);
  });

  it("a retry that expects no stream gets the result of the first append", async () => {
    const stream = createStreamName();
    const event = createEvent(0);
    const firstResult = await log.client.appendToStream(stream, event, { expectedRevision: NO_STREAM });
    await log.client.appendToStream(stream, createEvent(1), { expectedRevision: 0n });
    const retryResult = await log.client.appendToStream(stream, event, { expectedRevision: NO_STREAM });
    expect(retryResult.nextExpectedRevision).to.equal(0n);
    expect(retryResult.position).to.deep.equal(firstResult.position);
  });

  for (const expectedRevision of [ANY, STREAM_EXISTS] as const) {
    it(`a retry that expects ${expectedRevision} gets the result of the first append`, async () => {
      const stream = createStreamName();
      await log.client.appendToStream(stream, createEvent(0));
      const events = [createEvent(1), createEvent(2)];
      const firstResult = await log.client.appendToStream(stream, events, { expectedRevision });
      await log.client.appendToStream(stream, createEvent(9));
      const retryResult = await log.client.appendToStream(stream, events, { expectedRevision });
      expect(retryResult.nextExpectedRevision).to.equal(2n);
      expect(retryResult.position).to.deep.equal(firstResult.position);
      expect(await collect(log.client.readStream(stream))).to.have.length(4);
    });

    it(`a retry that adds a new event and expects ${expectedRevision} is refused`, async () => {
      const stream = createStreamName();
      const event = createEvent(0);
      await log.client.appendToStream(stream, event);
      const error = await getRejection(
        log.client.appendToStream(stream, [event, createEvent(1)], { expectedRevision }),
      );
      expect(error).to.be.instanceOf(WrongExpectedVersionError);
    });
  }

  it("a retry at an exact revision is refused if only some of its events, the first ones, are already stored", async () => {
    const stream = createStreamName();
    const event = createEvent(0);
    await log.client.appendToStream(stream, event, { expectedRevision: NO_STREAM });
    const longerAppend = log.client.appendToStream(stream, [event, createEvent(1)], { expectedRevision: NO_STREAM });
    expect(await getRejection(longerAppend)).to.be.instanceOf(WrongExpectedVersionError);
  });

  it("an append at the current revision is written even if the event ids are already stored", async () => {
    const stream = createStreamName();
    const event = createEvent(0);
    await log.client.appendToStream(stream, event, { expectedRevision: NO_STREAM });
    const appendResult = await log.client.appendToStream(stream, event, { expectedRevision: 0n });
    expect(appendResult.nextExpectedRevision).to.equal(1n);
  });

  it("two streams can contain the same event id", async () => {
    const event = createEvent(0);
    const [firstStream, secondStream] = [createStreamName(), createStreamName()];
    await log.client.appendToStream(firstStream, event, { expectedRevision: ANY });
    const appendResult = await log.client.appendToStream(secondStream, event, { expectedRevision: ANY });
    expect(appendResult.nextExpectedRevision).to.equal(0n);
    expect(await collect(log.client.readStream(secondStream))).to.have.length(1);
  });

  it("an append that a client sends many times concurrently is written once, and can be repeated", async () => {
    const stream = createStreamName();
    const events = [createEvent(0), createEvent(1)];
    const append = () => log.client.appendToStream(stream, events, { expectedRevision: NO_STREAM });
    const outcomes = await Promise.allSettled(Array.from({ length: 16 }, append));
    const repeatedResult = await append();
    expect(repeatedResult.nextExpectedRevision).to.equal(1n);
    for (const outcome of outcomes) {
      // While EventStoreDB writes events, it ignores another append of the same events, which then times out.
      if (outcome.status === "rejected") expect(outcome.reason.type).to.be.oneOf(["unknown", "deadline-exceeded"]);
      else expect(outcome.value).to.deep.include({ nextExpectedRevision: 1n, position: repeatedResult.position });
    }
    expect(outcomes.some(({ status }) => status === "fulfilled")).to.equal(true);
    expect(await collect(log.client.readStream(stream))).to.have.length(2);
  });

  it("a retry gets no position if reads of the stream do not return the stored event", async () => {
    for (const hideEvents of [
      (stream: string) => log.client.setStreamMetadata(stream, { truncateBefore: 2 }),
      (stream: string) => log.client.setStreamMetadata(stream, { maxCount: 1 }),
      (stream: string) => log.client.deleteStream(stream),
    ]) {
      const stream = createStreamName();
      const events = [createEvent(0), createEvent(1)];
      await log.client.appendToStream(stream, events, { expectedRevision: NO_STREAM });
      await log.client.appendToStream(stream, createEvent(2), { expectedRevision: 1n });
      await hideEvents(stream);
      for (const options of [{}, { credentials: { username: "admin", password: "changeit" } }]) {
        const retryResult = await log.client.appendToStream(stream, events, {
          expectedRevision: NO_STREAM,
          ...options,
        });
        expect(retryResult.nextExpectedRevision).to.equal(1n);
        expect(retryResult.position).to.equal(undefined);
      }
    }
  });

  it("a retry that expects any revision gets the result of the first event with the id", async () => {
    const stream = createStreamName();
    const event = createEvent(0);
    const firstResult = await log.client.appendToStream(stream, event, { expectedRevision: NO_STREAM });
    await log.client.appendToStream(stream, event, { expectedRevision: 0n });
    const retryResult = await log.client.appendToStream(stream, event, { expectedRevision: ANY });
    expect(retryResult.nextExpectedRevision).to.equal(0n);
    expect(retryResult.position).to.deep.equal(firstResult.position);
    const otherStream = createStreamName();
    await log.client.appendToStream(otherStream, event, { expectedRevision: ANY });
    const otherRetry = await log.client.appendToStream(otherStream, event, { expectedRevision: ANY });
    expect(otherRetry.nextExpectedRevision).to.equal(1n);
  });
});
