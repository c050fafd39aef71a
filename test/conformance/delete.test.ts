import {
  ANY,
  BACKWARDS,
  END,
  jsonEvent,
  NO_STREAM,
  STREAM_EXISTS,
  StreamDeletedError,
  StreamNotFoundError,
  WrongExpectedVersionError,
} from "@eventstore/db-client";
import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { getRejection } from "../support/rejection.ts";
import { collect, createEvent, createEvents, createStreamName, useLog } from "./log-under-test.ts";

describe("delete", () => {
  const log = useLog();

  async function createStream(): Promise<string> {
    const stream = createStreamName();
    await log.client.appendToStream(stream, createEvents(2));
    return stream;
  }

  const readRevisions = async (stream: string) =>
    (await collect(log.client.readStream(stream))).map(({ event }) => Number(event?.revision));

  describe("by soft deletion", () => {
    it("reads do not find a soft-deleted stream", async () => {
      const stream = await createStream();
      const deleteResult = await log.client.deleteStream(stream);
      expect(deleteResult.position?.commit).to.be.a("bigint");
      expect(await getRejection(collect(log.client.readStream(stream)))).to.be.instanceOf(StreamNotFoundError);
      const backwardsRead = log.client.readStream(stream, { direction: BACKWARDS, fromRevision: END });
      expect(await getRejection(collect(backwardsRead))).to.be.instanceOf(StreamNotFoundError);
    });

    it("a soft deletion with an expected revision succeeds only at that revision", async () => {
      const stream = await createStream();
      const error = await getRejection(log.client.deleteStream(stream, { expectedRevision: 5n }));
      expect(error).to.be.instanceOf(WrongExpectedVersionError);
      expect((error as WrongExpectedVersionError).actualVersion).to.equal(1n);
      await log.client.deleteStream(stream, { expectedRevision: 1n });
    });

    it("a soft deletion of a stream without events is refused", async () => {
      const error = await getRejection(log.client.deleteStream(createStreamName()));
      expect(error).to.be.instanceOf(WrongExpectedVersionError);
    });

    for (const expectedRevision of [NO_STREAM, ANY, 1n] as const)
      it(`a soft-deleted stream is restored by an append that expects ${expectedRevision}`, async () => {
        const stream = await createStream();
        await log.client.deleteStream(stream);
        const appendResult = await log.client.appendToStream(stream, createEvent(2), { expectedRevision });
        expect(appendResult.nextExpectedRevision).to.equal(2n);
        // EventStoreDB restores the stream shortly after it acknowledges the append.
        await eventually("the stream is restored", async () => {
          const revisions = await readRevisions(stream).catch(() => undefined);
          return String(revisions) === "2";
        });
        await log.client.appendToStream(stream, createEvent(3), { expectedRevision: 2n });
        expect(await readRevisions(stream)).to.deep.equal([2, 3]);
        const { metadata } = await log.client.getStreamMetadata(stream);
        expect(metadata?.truncateBefore).to.equal(2);
      });

    it("an append that expects an existing stream is refused if the stream is soft-deleted", async () => {
      const stream = await createStream();
      await log.client.deleteStream(stream);
      const error = await getRejection(
        log.client.appendToStream(stream, createEvent(2), { expectedRevision: STREAM_EXISTS }),
      );
      expect(error).to.be.instanceOf(StreamDeletedError);
    });
  });

  describe("by soft deletion, and then metadata", () => {
    it("metadata restores the stream, and the former events stay hidden", async () => {
      const stream = await createStream();
      await log.client.deleteStream(stream);
      await log.client.setStreamMetadata(stream, { owner: "me" });
      await eventually(
        "the stream is restored",
        async () => (await readRevisions(stream).catch(() => [0])).length === 0,
      );
      expect((await log.client.getStreamMetadata(stream)).metadata).to.deep.equal({ owner: "me", truncateBefore: 2 });
    });

    it("metadata that is not an object restores the stream with its former events", async () => {
      const stream = await createStream();
      await log.client.deleteStream(stream);
      await log.client.appendToStream(`$$${stream}`, jsonEvent({ type: "$metadata", data: [] }));
      await eventually(
        "the stream is restored",
        async () => (await readRevisions(stream).catch(() => [])).length === 2,
      );
    });
  });

  describe("by tombstone", () => {
    it("the metadata of a tombstoned stream cannot be read", async () => {
      const stream = await createStream();
      await log.client.setStreamMetadata(stream, { owner: "me" });
      await log.client.tombstoneStream(stream);
      expect(await getRejection(collect(log.client.readStream(`$$${stream}`)))).to.be.instanceOf(StreamDeletedError);
    });

    it("reads, appends and deletions of a tombstoned stream are refused", async () => {
      const stream = await createStream();
      const tombstoneResult = await log.client.tombstoneStream(stream, { expectedRevision: 1n });
      expect(tombstoneResult.position?.commit).to.be.a("bigint");
      const credentials = { username: "admin", password: "changeit" };
      for (const sendRequest of [
        () => collect(log.client.readStream(stream)),
        () => log.client.appendToStream(stream, createEvent(2)),
        () => log.client.appendToStream(stream, createEvent(2), { credentials }),
        () => log.client.deleteStream(stream),
        () => log.client.tombstoneStream(stream),
      ])
        expect(await getRejection(sendRequest())).to.be.instanceOf(StreamDeletedError);
    });

    it("a stream cannot be tombstoned by a request that expects an earlier revision", async () => {
      const stream = await createStream();
      const error = await getRejection(log.client.tombstoneStream(stream, { expectedRevision: 0n }));
      expect(error).to.be.instanceOf(WrongExpectedVersionError);
      expect(await readRevisions(stream)).to.deep.equal([0, 1]);
    });

    it("a soft-deleted stream and a stream without events can be tombstoned", async () => {
      const stream = await createStream();
      await log.client.deleteStream(stream);
      const missingStream = createStreamName();
      for (const name of [stream, missingStream]) {
        await log.client.tombstoneStream(name);
        expect(await getRejection(log.client.appendToStream(name, createEvent(0)))).to.be.instanceOf(
          StreamDeletedError,
        );
      }
    });
  });
});
