import {
  BACKWARDS,
  binaryEvent,
  END,
  type EventStoreDBClient,
  FORWARDS,
  jsonEvent,
  type Position,
  START,
  StreamNotFoundError,
} from "@eventstore/db-client";
import { expect } from "chai";
import { collect, createEvent, createEvents, createStreamName, getRejection, LogUnderTest } from "./log-under-test.ts";

describe("read", function () {
  this.timeout(30_000);
  let log: LogUnderTest;
  let client: EventStoreDBClient;

  before(async () => {
    log = await LogUnderTest.start();
    client = log.createClient();
  });
  after(() => log.stop());

  const readRevisions = async (reading: AsyncIterable<{ event?: { revision: bigint } }>) =>
    (await collect(reading)).map(({ event }) => Number(event?.revision));

  describe("a stream", () => {
    let stream: string;

    before(async () => {
      stream = createStreamName();
      await client.appendToStream(stream, createEvents(5));
    });

    it("a stream read returns the appended events", async () => {
      const one = jsonEvent({ type: "Whole", data: { text: "ä €" }, metadata: { by: "me" } });
      const name = createStreamName();
      const started = Date.now();
      const { position } = await client.appendToStream(name, one);
      const [read] = await collect(client.readStream(name));
      expect(read?.event).to.include({
        id: one.id,
        type: "Whole",
        streamId: name,
        revision: 0n,
        isJson: true,
      });
      expect(read?.event?.data).to.deep.equal({ text: "ä €" });
      expect(read?.event?.metadata).to.deep.equal({ by: "me" });
      expect(read?.event?.position).to.deep.equal(position);
      expect(Math.abs((read?.event?.created.getTime() ?? 0) - started)).to.be.below(60_000);
    });

    it("a stream read returns binary data and metadata", async () => {
      const name = createStreamName();
      const data = Buffer.from([0, 1, 2, 255]);
      await client.appendToStream(name, binaryEvent({ type: "Bytes", data, metadata: Buffer.from([9, 0]) }));
      const [read] = await collect(client.readStream(name));
      expect(read?.event?.isJson).to.equal(false);
      expect(Buffer.from(read?.event?.data as Uint8Array)).to.deep.equal(data);
      expect(Buffer.from(read?.event?.metadata as Uint8Array)).to.deep.equal(Buffer.from([9, 0]));
    });

    it("a stream read returns an event with empty data and no metadata", async () => {
      const name = createStreamName();
      await client.appendToStream(name, binaryEvent({ type: "Empty", data: Buffer.alloc(0) }));
      const [read] = await collect(client.readStream(name));
      expect(read?.event?.metadata).to.equal(undefined);
      expect(read?.event?.data).to.have.length(0);
    });

    it("streams with similar, unusual and non-ASCII names are distinct", async () => {
      const base = createStreamName("ünï-日本 / %00 ~");
      const names = [base, `${base} `, `${base}\u{10000}`, `${base}ÿ`, `${base}-0`];
      for (const [n, name] of names.entries()) await client.appendToStream(name, createEvent(n));
      for (const [n, name] of names.entries()) {
        const read = await collect(client.readStream(name));
        expect(read.map(({ event }) => event?.data)).to.deep.equal([{ n }]);
        expect(read[0]?.event?.streamId).to.equal(name);
      }
    });

    it("a forward stream read starts at the first event or at a revision, and returns at most the requested number of events", async () => {
      expect(await readRevisions(client.readStream(stream))).to.deep.equal([0, 1, 2, 3, 4]);
      expect(await readRevisions(client.readStream(stream, { fromRevision: 3n }))).to.deep.equal([3, 4]);
      expect(await readRevisions(client.readStream(stream, { fromRevision: 1n, maxCount: 2 }))).to.deep.equal([1, 2]);
      expect(await readRevisions(client.readStream(stream, { fromRevision: 9n }))).to.deep.equal([]);
    });

    it("a backward stream read starts at the last event or at a revision, and returns at most the requested number of events", async () => {
      const backwards = { direction: BACKWARDS } as const;
      expect(await readRevisions(client.readStream(stream, { ...backwards, fromRevision: END }))).to.deep.equal([
        4, 3, 2, 1, 0,
      ]);
      expect(
        await readRevisions(client.readStream(stream, { ...backwards, fromRevision: END, maxCount: 2 })),
      ).to.deep.equal([4, 3]);
      expect(await readRevisions(client.readStream(stream, { ...backwards, fromRevision: 1n }))).to.deep.equal([1, 0]);
    });

    it('a forward or backward read of a stream without events fails with the error "not found"', async () => {
      const missing = createStreamName();
      const error = await getRejection(collect(client.readStream(missing)));
      expect(error).to.be.instanceOf(StreamNotFoundError);
      expect((error as StreamNotFoundError).streamName).to.equal(missing);
      const backwards = client.readStream(missing, { direction: BACKWARDS, fromRevision: END, maxCount: 1 });
      expect(await getRejection(collect(backwards))).to.be.instanceOf(StreamNotFoundError);
    });

    it("a client can read an event immediately after the append of the event", async () => {
      const name = createStreamName();
      for (let n = 0; n < 20; n += 1) {
        await client.appendToStream(name, createEvent(n));
        expect(await readRevisions(client.readStream(name, { fromRevision: BigInt(n) }))).to.deep.equal([n]);
      }
    });

    it("a stream read returns all large events of the stream", async () => {
      const name = createStreamName();
      const big = (n: number) => jsonEvent({ type: "Big", data: { n, text: "y".repeat(300_000) } });
      for (let n = 0; n < 12; n += 1) await client.appendToStream(name, big(n));
      expect(await readRevisions(client.readStream(name))).to.deep.equal(Array.from({ length: 12 }, (_, n) => n));
    });
  });

  describe("all streams", () => {
    let stream: string;
    let positions: Position[];

    before(async () => {
      stream = createStreamName();
      positions = [];
      for (let n = 0; n < 6; n += 1) {
        const { position } = await client.appendToStream(stream, createEvent(n));
        positions.push(position!);
      }
    });

    const readOwnRevisions = async (reading: AsyncIterable<{ event?: { streamId: string; revision: bigint } }>) =>
      (await collect(reading))
        .filter(({ event }) => event?.streamId === stream)
        .map(({ event }) => Number(event?.revision));

    it("a forward read of all streams returns events in log order and includes the event at the start position", async () => {
      const read = await collect(client.readAll({ direction: FORWARDS, fromPosition: positions[2]!, maxCount: 500 }));
      expect(read[0]?.event?.position).to.deep.equal(positions[2]);
      expect(read[0]?.event?.streamId).to.equal(stream);
      const commits = read.map(({ event }) => event!.position.commit);
      expect(commits).to.deep.equal(commits.toSorted((x, y) => (x < y ? -1 : 1)));
      expect(await readOwnRevisions(client.readAll({ fromPosition: positions[2]! }))).to.deep.equal([2, 3, 4, 5]);
    });

    it("a backward read of all streams excludes the event at the start position", async () => {
      const reading = client.readAll({ direction: BACKWARDS, fromPosition: positions[3]!, maxCount: 500 });
      expect(await readOwnRevisions(reading)).to.deep.equal([2, 1, 0]);
    });

    it("a backward read of all streams can start at the end of the log", async () => {
      const read = await collect(client.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 3 }));
      expect(read).to.have.length(3);
      const [first, second] = read;
      expect(first!.event!.position.commit > second!.event!.position.commit).to.equal(true);
    });

    it("a read of all streams returns at most the requested number of events", async () => {
      const read = await collect(client.readAll({ fromPosition: START, maxCount: 4 }));
      expect(read).to.have.length(4);
      expect(await collect(client.readAll({ fromPosition: END, maxCount: 4 }))).to.have.length(0);
    });

    it("a stream read returns the same log position as the append", async () => {
      const [read] = await collect(client.readStream(stream, { fromRevision: 4n, maxCount: 1 }));
      expect(read?.event?.position).to.deep.equal(positions[4]);
      expect(positions[4]?.commit).to.equal(positions[4]?.prepare);
    });

    it("reads still work after many other reads on the same connection have been cancelled", async () => {
      for (let turn = 0; turn < 20; turn += 1) {
        let seen = 0;
        for await (const _ of client.readAll()) {
          seen += 1;
          if (seen === 2) break;
        }
        expect(seen).to.equal(2);
      }
      expect(await readOwnRevisions(client.readAll({ fromPosition: positions[5]! }))).to.deep.equal([5]);
    });
  });
});
