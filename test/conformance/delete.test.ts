import {
  ANY,
  BACKWARDS,
  END,
  type EventStoreDBClient,
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
import { useResource } from "../support/resources.ts";
import { collect, createEvent, createEvents, createStreamName, startLog } from "./log-under-test.ts";

describe("delete", () => {
  const log = useResource(startLog);
  let client: EventStoreDBClient;

  before(() => {
    client = log.createClient();
  });

  async function createStream(): Promise<string> {
    const stream = createStreamName();
    await client.appendToStream(stream, createEvents(2));
    return stream;
  }

  const readRevisions = async (stream: string) =>
    (await collect(client.readStream(stream))).map(({ event }) => Number(event?.revision));

  describe("by soft deletion", () => {
    it("reads do not find a soft-deleted stream", async () => {
      const stream = await createStream();
      const deleteResult = await client.deleteStream(stream);
      expect(deleteResult.position?.commit).to.be.a("bigint");
      expect(await getRejection(collect(client.readStream(stream)))).to.be.instanceOf(StreamNotFoundError);
      const backwardsRead = client.readStream(stream, { direction: BACKWARDS, fromRevision: END });
      expect(await getRejection(collect(backwardsRead))).to.be.instanceOf(StreamNotFoundError);
    });

    it("a soft deletion with an expected revision succeeds only at that revision", async () => {
      const stream = await createStream();
      const error = await getRejection(client.deleteStream(stream, { expectedRevision: 5n }));
      expect(error).to.be.instanceOf(WrongExpectedVersionError);
      expect((error as WrongExpectedVersionError).actualVersion).to.equal(1n);
      await client.deleteStream(stream, { expectedRevision: 1n });
    });

    it("a soft deletion of a stream without events is refused", async () => {
      const error = await getRejection(client.deleteStream(createStreamName()));
      expect(error).to.be.instanceOf(WrongExpectedVersionError);
    });

    for (const expectedRevision of [NO_STREAM, ANY, 1n] as const)
      it(`a soft-deleted stream is restored by an append that expects ${expectedRevision}`, async () => {
        const stream = await createStream();
        await client.deleteStream(stream);
        const appendResult = await client.appendToStream(stream, createEvent(2), { expectedRevision });
        expect(appendResult.nextExpectedRevision).to.equal(2n);
        // EventStoreDB restores the stream shortly after it acknowledges the append.
        await eventually("the stream is restored", async () => {
          const revisions = await readRevisions(stream).catch(() => undefined);
          return String(revisions) === "2";
        });
        await client.appendToStream(stream, createEvent(3), { expectedRevision: 2n });
        expect(await readRevisions(stream)).to.deep.equal([2, 3]);
        const { metadata } = await client.getStreamMetadata(stream);
        expect(metadata?.truncateBefore).to.equal(2);
      });

    it("an append that expects an existing stream is refused if the stream is soft-deleted", async () => {
      const stream = await createStream();
      await client.deleteStream(stream);
      const error = await getRejection(
        client.appendToStream(stream, createEvent(2), { expectedRevision: STREAM_EXISTS }),
      );
      expect(error).to.be.instanceOf(StreamDeletedError);
    });
  });

  describe("by soft deletion, and then metadata", () => {
    it("metadata restores the stream, and the former events stay hidden", async () => {
      const stream = await createStream();
      await client.deleteStream(stream);
      await client.setStreamMetadata(stream, { owner: "me" });
      await eventually(
        "the stream is restored",
        async () => (await readRevisions(stream).catch(() => [0])).length === 0,
      );
      expect((await client.getStreamMetadata(stream)).metadata).to.deep.equal({ owner: "me", truncateBefore: 2 });
    });

    it("metadata that is not an object restores the stream with its former events", async () => {
      const stream = await createStream();
      await client.deleteStream(stream);
      await client.appendToStream(`$$${stream}`, jsonEvent({ type: "$metadata", data: [] }));
      await eventually(
        "the stream is restored",
        async () => (await readRevisions(stream).catch(() => [])).length === 2,
      );
    });
  });

  describe("by tombstone", () => {
    it("the metadata of a tombstoned stream cannot be read", async () => {
      const stream = await createStream();
      await client.setStreamMetadata(stream, { owner: "me" });
      await client.tombstoneStream(stream);
      expect(await getRejection(collect(client.readStream(`$$${stream}`)))).to.be.instanceOf(StreamDeletedError);
    });

    it("reads, appends and deletions of a tombstoned stream are refused", async () => {
      const stream = await createStream();
      const tombstoneResult = await client.tombstoneStream(stream, { expectedRevision: 1n });
      expect(tombstoneResult.position?.commit).to.be.a("bigint");
      const credentials = { username: "admin", password: "changeit" };
      for (const sendRequest of [
        () => collect(client.readStream(stream)),
        () => client.appendToStream(stream, createEvent(2)),
        () => client.appendToStream(stream, createEvent(2), { credentials }),
        () => client.deleteStream(stream),
        () => client.tombstoneStream(stream),
      ])
        expect(await getRejection(sendRequest())).to.be.instanceOf(StreamDeletedError);
    });

    it("a stream cannot be tombstoned by a request that expects an earlier revision", async () => {
      const stream = await createStream();
      const error = await getRejection(client.tombstoneStream(stream, { expectedRevision: 0n }));
      expect(error).to.be.instanceOf(WrongExpectedVersionError);
      expect(await readRevisions(stream)).to.deep.equal([0, 1]);
    });

    it("a soft-deleted stream and a stream without events can be tombstoned", async () => {
      const stream = await createStream();
      await client.deleteStream(stream);
      const missingStream = createStreamName();
      for (const name of [stream, missingStream]) {
        await client.tombstoneStream(name);
        expect(await getRejection(client.appendToStream(name, createEvent(0)))).to.be.instanceOf(StreamDeletedError);
      }
    });
  });
});
