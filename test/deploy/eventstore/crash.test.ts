import { join } from "node:path";
import { type EventStoreDBClient, jsonEvent, NO_STREAM } from "@eventstore/db-client";
import { expect } from "chai";
import { collect } from "../../conformance/log-under-test.ts";
import { backUpLog } from "../../support/backups.ts";
import { findFreePort } from "../../support/free-ports.ts";
import { startSeparateLog } from "../../support/own-log.ts";
import { createClient, LogProcess, makeTemporaryDir } from "./log-process.ts";
import { createAppendRequest, openStore, readContent, submit } from "./stored-log.ts";

const APPENDER_COUNT = 24;
const ROUND_COUNT = 4;

interface AcknowledgedEvent {
  readonly id: string;
  readonly position: bigint;
}

/** Appends events to one stream. Retries each event with the same id and revision until it is acknowledged. */
class Appender {
  readonly stream: string;
  readonly acknowledgedEvents: AcknowledgedEvent[] = [];
  #pending: ReturnType<typeof jsonEvent> | undefined;

  constructor(stream: string) {
    this.stream = stream;
  }

  /** Appends events until the log is killed. The next call starts with the append that was not acknowledged. */
  async run(client: EventStoreDBClient): Promise<void> {
    for (;;) {
      const revision = this.acknowledgedEvents.length - 1;
      this.#pending ??= jsonEvent({ type: "Counted", data: { n: revision + 1, stream: this.stream } });
      const expectedRevision = revision < 0 ? NO_STREAM : BigInt(revision);
      let result: Awaited<ReturnType<EventStoreDBClient["appendToStream"]>>;
      try {
        result = await client.appendToStream(this.stream, this.#pending, { expectedRevision });
      } catch (error) {
        if (error instanceof Error && /version/i.test(error.constructor.name)) throw error;
        return;
      }
      expect(result.nextExpectedRevision).to.equal(BigInt(revision + 1));
      this.acknowledgedEvents.push({ id: this.#pending.id, position: result.position?.commit ?? -1n });
      this.#pending = undefined;
    }
  }
}

describe("the embedded log under SIGKILL", function () {
  this.timeout(600_000);
  it("after SIGKILL under load, the log contains every acknowledged event once and in order, and accepts retries", async () => {
    const dir = makeTemporaryDir();
    const port = await findFreePort();
    const appenders = Array.from({ length: APPENDER_COUNT }, (_, n) => new Appender(`crash-${n}`));
    for (let round = 0; round < ROUND_COUNT; round += 1) {
      const countBefore = countAcknowledged(appenders);
      const log = await LogProcess.start(dir, port);
      const client = log.createClient();
      const runPromises = appenders.map((appender) => appender.run(client));
      // Kills the log after a random number of appends, so that every round makes progress.
      const targetCount = countBefore + 100 + Math.floor(Math.random() * 400);
      await waitFor(() => countAcknowledged(appenders) >= targetCount);
      const { signal } = await log.kill("SIGKILL");
      expect(signal).to.equal("SIGKILL");
      await Promise.all(runPromises);
      await verify(dir, appenders);
    }
    expect(countAcknowledged(appenders)).to.be.at.least(100 * ROUND_COUNT);
  });
});

function countAcknowledged(appenders: readonly Appender[]): number {
  return appenders.reduce((sum, appender) => sum + appender.acknowledgedEvents.length, 0);
}

async function waitFor(condition: () => boolean): Promise<void> {
  const deadline = Date.now() + 30_000;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error("the appenders made no progress for 30 seconds");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** Opens the files of the killed log and compares the stored events with the acknowledged events. */
async function verify(dir: string, appenders: readonly Appender[]): Promise<void> {
  const log = await startSeparateLog({ dir });
  const client = createClient(log.port);
  const events = await collect(client.readAll());
  const commits = events.map(({ event }) => event!.position.commit);
  expect(commits.every((commit, index) => index === 0 || commit > commits[index - 1]!)).to.equal(true);
  const eventsByStream = new Map<string, (typeof events)[number]["event"][]>();
  for (const { event } of events) {
    const streamEvents = eventsByStream.get(event!.streamId);
    if (streamEvents === undefined) eventsByStream.set(event!.streamId, [event]);
    else streamEvents.push(event);
  }
  for (const { stream, acknowledgedEvents } of appenders) {
    const streamEvents = (eventsByStream.get(stream) ?? []).map((event) => event!);
    expect(streamEvents.map(({ revision }) => Number(revision))).to.deep.equal(streamEvents.map((_, index) => index));
    // Each appender has at most one append that is stored but not acknowledged.
    expect(streamEvents.length - acknowledgedEvents.length).to.be.within(0, 1);
    const firstEvents = streamEvents.slice(0, acknowledgedEvents.length);
    expect(firstEvents.map(({ id, position }) => ({ id, position: position.commit }))).to.deep.equal(
      acknowledgedEvents,
    );
    const resolvedEvents = await collect(client.readStream(stream)).catch(() => []);
    expect(resolvedEvents.map(({ event }) => event!.id)).to.deep.equal(streamEvents.map(({ id }) => id));
  }
  await log.stop();
}

describe("a backup of the running embedded log", () => {
  it("a backup of a running log opens and contains all events that were acknowledged before the backup began", async () => {
    const dir = makeTemporaryDir();
    const store = await openStore(join(dir, "log"));
    let isWriting = true;
    let acknowledgedCount = 0;
    const write = async (writerNumber: number) => {
      while (isWriting) {
        const { outcome } = await submit(store, createAppendRequest(`note-${writerNumber}`, ["x".repeat(1_000)]));
        expect(outcome).to.equal("written");
        acknowledgedCount += 1;
      }
    };
    const writePromises = Array.from({ length: 8 }, (_, writerNumber) => write(writerNumber));
    for (let round = 0; round < 5; round += 1) {
      const countBefore = acknowledgedCount;
      const copyDir = join(dir, `copy-${round}`);
      await backUpLog(join(dir, "log"), copyDir);
      const restoredStore = await openStore(copyDir);
      const { forwardEvents } = await readContent(restoredStore);
      await restoredStore.close();
      expect(forwardEvents.length).to.be.at.least(countBefore);
      const originalEvents = (await readContent(store)).forwardEvents;
      expect(forwardEvents).to.deep.equal(originalEvents.slice(0, forwardEvents.length));
    }
    isWriting = false;
    await Promise.all(writePromises);
    await store.close();
  });
});
