import { BACKWARDS, binaryEvent, END, jsonEvent, START, WrongExpectedVersionError } from "@eventstore/db-client";
import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { getRejection } from "../support/rejection.ts";
import { collect, createEvent, createEvents, createStreamName, useLog } from "./log-under-test.ts";
import { RecordedSubscription } from "./recorded-subscription.ts";

describe("stream metadata", () => {
  const log = useLog();

  const readRevisions = async (resolvedEvents: AsyncIterable<{ event?: { revision: bigint } }>) =>
    (await collect(resolvedEvents)).map(({ event }) => Number(event?.revision));

  /** Creates metadata that the client's `setStreamMetadata` would refuse. */
  const createMetadataEvent = (json: string, type = "$metadata") => jsonEvent({ type, data: JSON.parse(json) });

  it("a read of stream metadata returns all keys unchanged, including custom keys", async () => {
    const stream = createStreamName();
    expect((await log.client.getStreamMetadata(stream)).metadata).to.equal(undefined);
    await log.client.setStreamMetadata(stream, { maxCount: 3, owner: "me" });
    expect((await log.client.getStreamMetadata(stream)).metadata).to.deep.equal({ maxCount: 3, owner: "me" });
    await log.client.setStreamMetadata(stream, { owner: "you" });
    expect((await log.client.getStreamMetadata(stream)).metadata).to.deep.equal({ owner: "you" });
  });

  it("a metadata write with a wrong expected revision is refused", async () => {
    const stream = createStreamName();
    await log.client.setStreamMetadata(stream, { owner: "me" }, { expectedRevision: "no_stream" });
    const error = await getRejection(
      log.client.setStreamMetadata(stream, { owner: "you" }, { expectedRevision: "no_stream" }),
    );
    expect(error).to.be.instanceOf(WrongExpectedVersionError);
    await log.client.setStreamMetadata(stream, { owner: "you" }, { expectedRevision: 0n });
  });

  it("forward and backward reads return only the newest events if the metadata sets `$maxCount`", async () => {
    const stream = createStreamName();
    await log.client.appendToStream(stream, createEvents(10));
    await log.client.setStreamMetadata(stream, { maxCount: 3 });
    expect(await readRevisions(log.client.readStream(stream))).to.deep.equal([7, 8, 9]);
    const backwardsOptions = { direction: BACKWARDS, fromRevision: END } as const;
    expect(await readRevisions(log.client.readStream(stream, backwardsOptions))).to.deep.equal([9, 8, 7]);
    await log.client.appendToStream(stream, createEvent(10));
    expect(await readRevisions(log.client.readStream(stream))).to.deep.equal([8, 9, 10]);
    await log.client.setStreamMetadata(stream, {});
    expect(await readRevisions(log.client.readStream(stream))).to.have.length(11);
  });

  it("forward and backward reads skip the events before the revision in the metadata `$tb`", async () => {
    const stream = createStreamName();
    await log.client.appendToStream(stream, createEvents(6));
    await log.client.setStreamMetadata(stream, { truncateBefore: 4 });
    expect(await readRevisions(log.client.readStream(stream))).to.deep.equal([4, 5]);
    const backwardsOptions = { direction: BACKWARDS, fromRevision: END } as const;
    expect(await readRevisions(log.client.readStream(stream, backwardsOptions))).to.deep.equal([5, 4]);
    expect(await readRevisions(log.client.readStream(stream, { fromRevision: 1n, maxCount: 1 }))).to.deep.equal([4]);
  });

  it("a subscription to a truncated stream starts with the first visible event", async () => {
    const stream = createStreamName();
    await log.client.appendToStream(stream, createEvents(6));
    await log.client.setStreamMetadata(stream, { truncateBefore: 4 });
    const recording = new RecordedSubscription(log.client.subscribeToStream(stream, { fromRevision: START }));
    await eventually("caught up", () => recording.hasCaughtUp);
    expect(recording.numbers).to.deep.equal([4, 5]);
    await recording.stop();
  });

  it("truncating a stream does not change its revision", async () => {
    const stream = createStreamName();
    await log.client.appendToStream(stream, createEvents(6));
    await log.client.setStreamMetadata(stream, { maxCount: 1 });
    const appendResult = await log.client.appendToStream(stream, createEvent(6), { expectedRevision: 5n });
    expect(appendResult.nextExpectedRevision).to.equal(6n);
  });

  it("metadata can be set before the first event of a stream is written", async () => {
    const stream = createStreamName();
    await log.client.setStreamMetadata(stream, { maxCount: 2 });
    await log.client.appendToStream(stream, createEvents(4), { expectedRevision: "no_stream" });
    expect(await readRevisions(log.client.readStream(stream))).to.deep.equal([2, 3]);
  });

  it("reads and new subscriptions skip the events that are older than the age in the metadata `$maxAge`", async () => {
    const stream = createStreamName();
    await log.client.appendToStream(stream, createEvents(3));
    await log.client.setStreamMetadata(stream, { maxAge: 1 });
    const backwardsOptions = { direction: BACKWARDS, fromRevision: END } as const;
    await eventually("too old", async () => (await readRevisions(log.client.readStream(stream))).length === 0);
    expect(await readRevisions(log.client.readStream(stream, backwardsOptions))).to.deep.equal([]);
    const recording = new RecordedSubscription(log.client.subscribeToStream(stream, { fromRevision: START }));
    await eventually("caught up", () => recording.hasCaughtUp);
    expect(recording.events).to.have.length(0);
    await recording.stop();
    await log.client.setStreamMetadata(stream, { maxAge: 100_000 });
    expect(await readRevisions(log.client.readStream(stream, { maxCount: 2 }))).to.deep.equal([0, 1]);
    expect(await readRevisions(log.client.readStream(stream, backwardsOptions))).to.deep.equal([2, 1, 0]);
  });

  it("a live subscription sends events that reads skip because of `$maxCount` or `$tb`", async () => {
    const stream = createStreamName();
    await log.client.setStreamMetadata(stream, { maxCount: 1, truncateBefore: 3 });
    const recording = new RecordedSubscription(log.client.subscribeToStream(stream, { fromRevision: START }));
    await eventually("caught up", () => recording.hasCaughtUp);
    await log.client.appendToStream(stream, createEvents(3));
    await eventually("all events", () => recording.events.length === 3);
    expect(await readRevisions(log.client.readStream(stream))).to.deep.equal([]);
    await recording.stop();
  });

  it("the keys `$acl`, `$cacheControl` and `$tmp` are stored, and do not change reads", async () => {
    const stream = createStreamName();
    await log.client.appendToStream(stream, createEvents(3));
    const metadata = { acl: { readRoles: ["$all"] }, cacheControl: 5 };
    await log.client.setStreamMetadata(stream, metadata);
    expect((await log.client.getStreamMetadata(stream)).metadata).to.deep.include(metadata);
    await log.client.appendToStream(`$$${stream}`, createMetadataEvent('{"$tmp":true}'));
    expect(await readRevisions(log.client.readStream(stream))).to.deep.equal([0, 1, 2]);
  });

  for (const json of [
    "[]",
    '"text"',
    '{"$maxCount":"1"}',
    '{"$maxCount":1.5}',
    '{"$maxCount":0}',
    '{"$maxCount":-1}',
    '{"$tb":-1}',
    '{"$tb":9223372036854775808}',
    '{"$tb":"2","$maxCount":1}',
    '{"$acl":{"$r":7},"$maxCount":1}',
    '{"$tmp":1,"$maxCount":1}',
    '{"$maxAge":922337203686,"$maxCount":1}',
  ])
    it(`the metadata ${json} is accepted and has no effect`, async () => {
      const stream = createStreamName();
      await log.client.appendToStream(stream, createEvents(3));
      await log.client.setStreamMetadata(stream, { truncateBefore: 2 });
      expect(await readRevisions(log.client.readStream(stream))).to.deep.equal([2]);
      await log.client.appendToStream(`$$${stream}`, createMetadataEvent(json));
      expect(await readRevisions(log.client.readStream(stream))).to.deep.equal([0, 1, 2]);
    });

  it("metadata has an effect with every event type, but only as JSON", async () => {
    const stream = createStreamName();
    await log.client.appendToStream(stream, createEvents(3));
    await log.client.appendToStream(`$$${stream}`, createMetadataEvent('{"$maxCount":1}', "Other"));
    expect(await readRevisions(log.client.readStream(stream))).to.deep.equal([2]);
    const data = Buffer.from('{"$maxCount":1}');
    await log.client.appendToStream(`$$${stream}`, binaryEvent({ type: "$metadata", data }));
    expect(await readRevisions(log.client.readStream(stream))).to.deep.equal([0, 1, 2]);
  });
});
