import {
  BACKWARDS,
  binaryEvent,
  END,
  FORWARDS,
  jsonEvent,
  type Position,
  START,
  StreamNotFoundError,
  UnknownError,
} from "@eventstore/db-client";
import { expect } from "chai";
import { readEventAt } from "../../shared/eventstore/read-log.ts";
import { getRejection } from "../support/rejection.ts";
import { collect, createEvent, createEvents, createStreamName, useLog } from "./log-under-test.ts";

describe("read", () => {
  const log = useLog();

  const readRevisions = async (events: AsyncIterable<{ event?: { revision: bigint } }>) =>
    (await collect(events)).map(({ event }) => Number(event?.revision));

  describe("a stream", () => {
    let stream: string;

    before(async () => {
      stream = createStreamName();
      await log.client.appendToStream(stream, createEvents(5));
    });

    it("a stream read returns the appended events", async () => {
      const event = jsonEvent({ type: "Whole", data: { text: "ä €" }, metadata: { by: "me" } });
      const name = createStreamName();
      const startedAt = Date.now();
      const { position } = await log.client.appendToStream(name, event);
      const [resolvedEvent] = await collect(log.client.readStream(name));
      expect(resolvedEvent?.event).to.include({
        id: event.id,
        type: "Whole",
        streamId: name,
        revision: 0n,
        isJson: true,
      });
      expect(resolvedEvent?.event?.data).to.deep.equal({ text: "ä €" });
      expect(resolvedEvent?.event?.metadata).to.deep.equal({ by: "me" });
      expect(resolvedEvent?.event?.position).to.deep.equal(position);
      expect(Math.abs((resolvedEvent?.event?.created.getTime() ?? 0) - startedAt)).to.be.below(60_000);
    });

    it("a stream read returns binary data and metadata", async () => {
      const name = createStreamName();
      const data = Buffer.from([0, 1, 2, 255]);
      await log.client.appendToStream(name, binaryEvent({ type: "Bytes", data, metadata: Buffer.from([9, 0]) }));
      const [resolvedEvent] = await collect(log.client.readStream(name));
      expect(resolvedEvent?.event?.isJson).to.equal(false);
      expect(Buffer.from(resolvedEvent?.event?.data as Uint8Array)).to.deep.equal(data);
      expect(Buffer.from(resolvedEvent?.event?.metadata as Uint8Array)).to.deep.equal(Buffer.from([9, 0]));
    });

    it("a stream read returns an event with empty data and no metadata", async () => {
      const name = createStreamName();
      await log.client.appendToStream(name, binaryEvent({ type: "Empty", data: Buffer.alloc(0) }));
      const [resolvedEvent] = await collect(log.client.readStream(name));
      expect(resolvedEvent?.event?.metadata).to.equal(undefined);
      expect(resolvedEvent?.event?.data).to.have.length(0);
    });

    it("streams with similar, unusual and non-ASCII names are distinct", async () => {
      const baseName = createStreamName("ünï-日本 / %00 ~");
      const names = [baseName, `${baseName} `, `${baseName}\u{10000}`, `${baseName}ÿ`, `${baseName}-0`];
      for (const [n, name] of names.entries()) await log.client.appendToStream(name, createEvent(n));
      for (const [n, name] of names.entries()) {
        const events = await collect(log.client.readStream(name));
        expect(events.map(({ event }) => event?.data)).to.deep.equal([{ n }]);
        expect(events[0]?.event?.streamId).to.equal(name);
      }
    });

    it("a forward stream read starts at the first event or at a revision, and returns at most the requested number of events", async () => {
      expect(await readRevisions(log.client.readStream(stream))).to.deep.equal([0, 1, 2, 3, 4]);
      expect(await readRevisions(log.client.readStream(stream, { fromRevision: 3n }))).to.deep.equal([3, 4]);
      expect(await readRevisions(log.client.readStream(stream, { fromRevision: 1n, maxCount: 2 }))).to.deep.equal([
        1, 2,
      ]);
      expect(await readRevisions(log.client.readStream(stream, { fromRevision: 9n }))).to.deep.equal([]);
    });

    it("a backward stream read starts at the last event or at a revision, and returns at most the requested number of events", async () => {
      const options = { direction: BACKWARDS } as const;
      expect(await readRevisions(log.client.readStream(stream, { ...options, fromRevision: END }))).to.deep.equal([
        4, 3, 2, 1, 0,
      ]);
      expect(
        await readRevisions(log.client.readStream(stream, { ...options, fromRevision: END, maxCount: 2 })),
      ).to.deep.equal([4, 3]);
      expect(await readRevisions(log.client.readStream(stream, { ...options, fromRevision: 1n }))).to.deep.equal([
        1, 0,
      ]);
    });

    for (const [caseName, options] of [
      ["a forward stream read that starts at the end", { fromRevision: END }],
      ["a stream read of no events", { maxCount: 0 }],
    ] as const)
      it(`${caseName} is refused`, async () => {
        expect(await getRejection(collect(log.client.readStream(stream, options)))).to.be.instanceOf(UnknownError);
      });

    it('a forward or backward read of a stream without events fails with the error "not found"', async () => {
      const missingStream = createStreamName();
      const error = await getRejection(collect(log.client.readStream(missingStream)));
      expect(error).to.be.instanceOf(StreamNotFoundError);
      expect((error as StreamNotFoundError).streamName).to.equal(missingStream);
      const backwardsRead = log.client.readStream(missingStream, {
        direction: BACKWARDS,
        fromRevision: END,
        maxCount: 1,
      });
      expect(await getRejection(collect(backwardsRead))).to.be.instanceOf(StreamNotFoundError);
    });

    it("a client can read an event immediately after the append of the event", async () => {
      const name = createStreamName();
      for (let n = 0; n < 20; n += 1) {
        await log.client.appendToStream(name, createEvent(n));
        expect(await readRevisions(log.client.readStream(name, { fromRevision: BigInt(n) }))).to.deep.equal([n]);
      }
    });

    it("a stream read returns all large events of the stream", async () => {
      const name = createStreamName();
      const createBigEvent = (n: number) => jsonEvent({ type: "Big", data: { n, text: "y".repeat(300_000) } });
      for (let n = 0; n < 12; n += 1) await log.client.appendToStream(name, createBigEvent(n));
      expect(await readRevisions(log.client.readStream(name))).to.deep.equal(Array.from({ length: 12 }, (_, n) => n));
    });
  });

  describe("all streams", () => {
    let stream: string;
    let positions: Position[];

    before(async () => {
      stream = createStreamName();
      positions = [];
      for (let n = 0; n < 6; n += 1) {
        const { position } = await log.client.appendToStream(stream, createEvent(n));
        positions.push(position!);
      }
    });

    const readOwnRevisions = async (events: AsyncIterable<{ event?: { streamId: string; revision: bigint } }>) =>
      (await collect(events))
        .filter(({ event }) => event?.streamId === stream)
        .map(({ event }) => Number(event?.revision));

    it("a forward read of all streams returns events in log order and includes the event at the start position", async () => {
      const events = await collect(
        log.client.readAll({ direction: FORWARDS, fromPosition: positions[2]!, maxCount: 500 }),
      );
      expect(events[0]?.event?.position).to.deep.equal(positions[2]);
      expect(events[0]?.event?.streamId).to.equal(stream);
      const commits = events.map(({ event }) => event!.position.commit);
      expect(commits).to.deep.equal(commits.toSorted((a, b) => (a < b ? -1 : 1)));
      expect(await readOwnRevisions(log.client.readAll({ fromPosition: positions[2]! }))).to.deep.equal([2, 3, 4, 5]);
    });

    it("a backward read of all streams excludes the event at the start position", async () => {
      const events = log.client.readAll({ direction: BACKWARDS, fromPosition: positions[3]!, maxCount: 500 });
      expect(await readOwnRevisions(events)).to.deep.equal([2, 1, 0]);
    });

    it("a backward read of all streams can start at the end of the log", async () => {
      const events = await collect(log.client.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 3 }));
      expect(events).to.have.length(3);
      const [newestEvent, olderEvent] = events;
      expect(newestEvent!.event!.position.commit > olderEvent!.event!.position.commit).to.equal(true);
    });

    it("a read of all streams returns at most the requested number of events", async () => {
      const events = await collect(log.client.readAll({ fromPosition: START, maxCount: 4 }));
      expect(events).to.have.length(4);
      expect(await collect(log.client.readAll({ fromPosition: END, maxCount: 4 }))).to.have.length(0);
    });

    it("a stream read returns the same log position as the append", async () => {
      const [resolvedEvent] = await collect(log.client.readStream(stream, { fromRevision: 4n, maxCount: 1 }));
      expect(resolvedEvent?.event?.position).to.deep.equal(positions[4]);
      expect(positions[4]?.commit).to.equal(positions[4]?.prepare);
    });

    it("a read from a position where no event starts finds no event there", async () => {
      const [lastEvent] = await collect(log.client.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 1 }));
      const logEnd = lastEvent!.event!.position.commit;
      for (const position of [positions[2]!.commit + 1n, logEnd + 1n, logEnd + 1_000_000_000n])
        expect(await readEventAt(log.client, position), `position ${position}`).to.equal(undefined);
      expect((await readEventAt(log.client, positions[2]!.commit))?.revision).to.equal(2n);
    });

    it("reads still work after many other reads on the same connection have been cancelled", async () => {
      for (let round = 0; round < 20; round += 1) {
        let eventCount = 0;
        for await (const _ of log.client.readAll()) {
          eventCount += 1;
          if (eventCount === 2) break;
        }
        expect(eventCount).to.equal(2);
      }
      expect(await readOwnRevisions(log.client.readAll({ fromPosition: positions[5]! }))).to.deep.equal([5]);
    });
  });
});
