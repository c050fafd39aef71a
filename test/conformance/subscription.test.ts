import {
  END,
  eventTypeFilter,
  type Filter,
  type Position,
  START,
  StreamDeletedError,
  streamNameFilter,
} from "@eventstore/db-client";
import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { createEvent, createEvents, createStreamName, findLogEnd, useLog } from "./log-under-test.ts";
import { RecordedSubscription } from "./recorded-subscription.ts";

describe("subscription", () => {
  const log = useLog();
  const openSubscriptions: RecordedSubscription[] = [];

  afterEach(async () => {
    for (const subscription of openSubscriptions.splice(0)) await subscription.stop();
  });

  function recordSubscription(
    subscription: ConstructorParameters<typeof RecordedSubscription>[0],
  ): RecordedSubscription {
    const recordedSubscription = new RecordedSubscription(subscription);
    openSubscriptions.push(recordedSubscription);
    return recordedSubscription;
  }

  describe("to a stream", () => {
    it("a stream subscription sends the existing events, then the message `caughtUp`, then new events", async () => {
      const stream = createStreamName();
      await log.client.appendToStream(stream, createEvents(3));
      const recording = recordSubscription(log.client.subscribeToStream(stream, { fromRevision: START }));
      await eventually("caught up", () => recording.hasCaughtUp);
      expect(recording.receivedNames).to.deep.equal(["confirmation", "event", "event", "event", "caughtUp"]);
      await log.client.appendToStream(stream, createEvent(3));
      await eventually("the live event", () => recording.events.length === 4);
      expect(recording.numbers).to.deep.equal([0, 1, 2, 3]);
    });

    it("a subscription can start before the stream exists", async () => {
      const stream = createStreamName();
      const recording = recordSubscription(log.client.subscribeToStream(stream));
      await eventually("caught up", () => recording.hasCaughtUp);
      await log.client.appendToStream(stream, createEvents(2));
      await eventually("both events", () => recording.events.length === 2);
    });

    it("a stream subscription from a revision sends only events after that revision", async () => {
      const stream = createStreamName();
      await log.client.appendToStream(stream, createEvents(5));
      const recording = recordSubscription(log.client.subscribeToStream(stream, { fromRevision: 2n }));
      await eventually("caught up", () => recording.hasCaughtUp);
      expect(recording.numbers).to.deep.equal([3, 4]);
    });

    it("a stream subscription from the end sends only new events", async () => {
      const stream = createStreamName();
      await log.client.appendToStream(stream, createEvents(5));
      const recording = recordSubscription(log.client.subscribeToStream(stream, { fromRevision: END }));
      await eventually("caught up", () => recording.hasCaughtUp);
      await log.client.appendToStream(stream, createEvent(5));
      await eventually("the live event", () => recording.events.length > 0);
      expect(recording.numbers).to.deep.equal([5]);
    });

    it("a subscription sends the tombstone of its stream, and then fails", async () => {
      const stream = createStreamName();
      await log.client.appendToStream(stream, createEvent(0));
      const recording = recordSubscription(log.client.subscribeToStream(stream));
      await eventually("caught up", () => recording.hasCaughtUp);
      await log.client.tombstoneStream(stream);
      await eventually("the error", () => recording.errors.length > 0);
      expect(recording.errors[0]).to.be.instanceOf(StreamDeletedError);
      expect(recording.events.map(({ event }) => event?.type)).to.deep.equal(["Counted", "$streamDeleted"]);
      const laterRecording = recordSubscription(log.client.subscribeToStream(stream));
      await eventually("the error", () => laterRecording.errors.length > 0);
      expect(laterRecording.receivedNames[0]).to.equal("error");
    });
  });

  describe("to all streams", () => {
    it("a subscription to all streams from a position sends all events after that position in order", async () => {
      const stream = createStreamName();
      const { position } = await log.client.appendToStream(stream, createEvent(0));
      await log.client.appendToStream(stream, createEvents(3));
      const recording = recordSubscription(log.client.subscribeToAll({ fromPosition: position! }));
      await eventually("caught up", () => recording.hasCaughtUp);
      const commits = recording.events.map(({ event }) => event!.position!.commit);
      expect(commits.every((commit) => commit > position!.commit)).to.equal(true);
      expect(commits).to.deep.equal(commits.toSorted((a, b) => (a < b ? -1 : 1)));
      expect(recording.events.filter(({ event }) => event?.streamId === stream)).to.have.length(3);
    });

    it("a subscription to all streams from the end sends only new events", async () => {
      const stream = createStreamName();
      await log.client.appendToStream(stream, createEvent(0));
      const filter = streamNameFilter({ prefixes: [stream] });
      const recording = recordSubscription(log.client.subscribeToAll({ fromPosition: END, filter }));
      await eventually("caught up", () => recording.hasCaughtUp);
      await log.client.appendToStream(stream, createEvent(1));
      await eventually("the live event", () => recording.events.length > 0);
      expect(recording.numbers).to.deep.equal([1]);
    });

    it("a subscription that becomes live while 16 writers append events sends every event exactly once", async () => {
      const category = createStreamName("racing");
      const startPosition = await findLogEnd(log.client);
      const eventCount = 150;
      let stoppedCount = 0;
      const writers = Array.from({ length: 16 }, async (_, writer) => {
        const ownClient = log.createClient();
        for (let n = 0; n < eventCount; n += 1) await ownClient.appendToStream(`${category}-${writer}`, createEvent(n));
        stoppedCount += 1;
      });
      const filter = streamNameFilter({ prefixes: [category] });
      // Many subscriptions start while the writers run, so that they become live at different moments.
      const recordings: RecordedSubscription[] = [];
      while (stoppedCount < 16) {
        const fromPosition = startPosition;
        const recording = recordSubscription(log.client.subscribeToAll({ fromPosition, filter }));
        recordings.push(recording);
        await eventually("caught up", () => recording.hasCaughtUp || recording.events.length >= 16 * eventCount);
        if (recordings.length >= 8) break;
      }
      await Promise.all(writers);
      for (const recording of recordings) {
        await eventually("all events", () => recording.events.length >= 16 * eventCount);
        expect(recording.events).to.have.length(16 * eventCount);
        for (let writer = 0; writer < 16; writer += 1) {
          const writerEvents = recording.events.filter(({ event }) => event?.streamId === `${category}-${writer}`);
          expect(writerEvents.map(({ event }) => Number(event?.revision))).to.deep.equal(
            Array.from({ length: eventCount }, (_, n) => n),
          );
        }
        const commits = recording.events.map(({ event }) => event!.position!.commit);
        expect(commits.every((commit, index) => index === 0 || commit > commits[index - 1]!)).to.equal(true);
      }
    });

    it("a subscription that is often resumed after the last received event sends every event exactly once", async () => {
      const category = createStreamName("resumed");
      let fromPosition: Position | typeof START = await findLogEnd(log.client);
      for (let n = 0; n < 40; n += 1) await log.client.appendToStream(`${category}-${n % 3}`, createEvent(n));
      const filter = streamNameFilter({ prefixes: [category] });
      const numbers: number[] = [];
      while (numbers.length < 40) {
        const subscription = log.client.subscribeToAll({ fromPosition, filter });
        let takenCount = 0;
        for await (const { event } of subscription) {
          numbers.push((event!.data as { n: number }).n);
          fromPosition = event!.position!;
          takenCount += 1;
          if (takenCount === 7 || numbers.length === 40) break;
        }
      }
      expect(numbers).to.deep.equal(Array.from({ length: 40 }, (_, n) => n));
    });

    it("a live subscription that stops reading for a while gets every event once, then `caughtUp` again", async () => {
      const stream = createStreamName();
      const filter = streamNameFilter({ prefixes: [stream] });
      const subscription = log.client.subscribeToAll({ fromPosition: await findLogEnd(log.client), filter });
      const recording = recordSubscription(subscription);
      await eventually("caught up", () => recording.hasCaughtUp);
      subscription.pause();
      const roundCount = 24;
      for (let round = 0; round < roundCount; round += 1) {
        const events = createEvents(32).map((event) => ({ ...event, metadata: { padding: "x".repeat(24_000) } }));
        await log.client.appendToStream(stream, events);
      }
      subscription.resume();
      await eventually("all events", () => recording.events.length === roundCount * 32);
      await eventually("caught up again", () => recording.receivedNames.at(-1) === "caughtUp");
      expect(recording.events.map(({ event }) => Number(event?.revision))).to.deep.equal(
        Array.from({ length: roundCount * 32 }, (_, n) => n),
      );
    });

    it("each of several concurrent subscriptions gets all matching events", async () => {
      const stream = createStreamName();
      const filter = streamNameFilter({ prefixes: [stream] });
      const fromPosition = await findLogEnd(log.client);
      const recordings = Array.from({ length: 10 }, () =>
        recordSubscription(log.client.subscribeToAll({ fromPosition, filter })),
      );
      for (const recording of recordings) await eventually("caught up", () => recording.hasCaughtUp);
      await log.client.appendToStream(stream, createEvents(20));
      for (const recording of recordings) await eventually("all events", () => recording.events.length === 20);
    });
  });

  describe("with a filter", () => {
    let category: string;
    let positionBefore: Position | typeof START;

    before(async () => {
      category = createStreamName("filtered");
      positionBefore = await findLogEnd(log.client);
      for (let n = 0; n < 200; n += 1) {
        const type = n % 50 === 0 ? `Rare-${category}` : "Common";
        await log.client.appendToStream(`${category}-${n % 5}`, createEvent(n, type));
      }
    });

    async function readNumbers(filter: Filter): Promise<number[]> {
      const recording = recordSubscription(log.client.subscribeToAll({ fromPosition: positionBefore, filter }));
      await eventually("caught up", () => recording.hasCaughtUp);
      return recording.numbers;
    }

    const listEveryNth = (step: number, offset = 0) =>
      Array.from({ length: 200 }, (_, n) => n).filter((n) => n % step === offset);

    it("a subscription filters streams by prefix", async () => {
      expect(await readNumbers(streamNameFilter({ prefixes: [`${category}-3`] }))).to.deep.equal(listEveryNth(5, 3));
      const matchingNumbers = await readNumbers(streamNameFilter({ prefixes: [`${category}-0`, `${category}-4`] }));
      expect(matchingNumbers).to.deep.equal([...listEveryNth(5), ...listEveryNth(5, 4)].toSorted((a, b) => a - b));
    });

    it("a subscription filters streams by regular expression", async () => {
      const filter = streamNameFilter({ regex: `^${category}-[12]$` });
      expect(await readNumbers(filter)).to.have.length(80);
    });

    it("a subscription filters event types by prefix", async () => {
      expect(await readNumbers(eventTypeFilter({ prefixes: [`Rare-${category}`] }))).to.deep.equal(listEveryNth(50));
    });

    it("a subscription filters event types by regular expression", async () => {
      const filter = eventTypeFilter({ regex: `^Rare-${category}$` });
      expect(await readNumbers(filter)).to.deep.equal(listEveryNth(50));
    });

    it("a filtered subscription without matching events reports checkpoints, from which a new subscription can start", async () => {
      const checkpoints: Position[] = [];
      const filter = streamNameFilter({
        prefixes: [`${category}-none`],
        checkpointInterval: 1,
        maxSearchWindow: 32,
        checkpointReached: (_, position) => {
          checkpoints.push(position);
        },
      });
      const recording = recordSubscription(log.client.subscribeToAll({ fromPosition: positionBefore, filter }));
      await eventually("caught up", () => recording.hasCaughtUp);
      await eventually("checkpoints", () => checkpoints.length >= 5);
      expect(recording.events).to.deep.equal([]);
      const commits = checkpoints.map(({ commit }) => commit);
      expect(commits).to.deep.equal(commits.toSorted((a, b) => (a < b ? -1 : 1)));

      const stream = `${category}-none-1`;
      await log.client.appendToStream(stream, createEvent(1000));
      const resumedSubscription = recordSubscription(
        log.client.subscribeToAll({
          fromPosition: checkpoints.at(-1)!,
          filter: streamNameFilter({ prefixes: [`${category}-none`] }),
        }),
      );
      await eventually("the one match", () => resumedSubscription.events.length > 0);
      expect(resumedSubscription.numbers).to.deep.equal([1000]);
    });

    it("a live filtered subscription without matching events reports checkpoints", async () => {
      const checkpoints: Position[] = [];
      const stream = createStreamName();
      const filter = streamNameFilter({
        prefixes: [createStreamName("never")],
        checkpointInterval: 1,
        maxSearchWindow: 10,
        checkpointReached: (_, position) => {
          checkpoints.push(position);
        },
      });
      const recording = recordSubscription(log.client.subscribeToAll({ fromPosition: END, filter }));
      await eventually("caught up", () => recording.hasCaughtUp);
      for (let n = 0; n < 400; n += 1) await log.client.appendToStream(stream, createEvent(n));
      await eventually("a live checkpoint", () => checkpoints.length > 0);
    });
  });
});
