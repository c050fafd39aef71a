import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { startLogServer } from "../../../deploy/local/eventstore/server.ts";
import { collect, getRejection } from "../../conformance/log-under-test.ts";
import { createClient, createTemporaryDir } from "./log-process.ts";
import { appendEvents, createAppend, openStore, readContent, submit } from "./stored-log.ts";

const LIMITS = { events: 1_000, streams: 1_000, segments: 1_000 };

describe("the limits of the embedded log", function () {
  this.timeout(60_000);
  let dir: string;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    ({ dir, remove } = await createTemporaryDir());
  });
  afterEach(() => remove());

  for (const [limitName, limits] of [
    ["events", { ...LIMITS, events: 90 }],
    ["streams", { ...LIMITS, streams: 72 }],
    ["segments", { ...LIMITS, segments: 1 }],
  ] as const) {
    it(`a log with the maximum number of ${limitName} refuses appends but serves reads`, async () => {
      const store = await openStore(dir, { limits, segmentBytes: 10_000 });
      await appendEvents(store, 50);
      let outcome = "written";
      for (let n = 0; outcome === "written" && n < 100; n += 1) {
        ({ outcome } = await submit(store, createAppend(`more-${n}`, ["one"])));
      }
      expect(outcome).to.equal("log-full");
      const { forwardEvents } = await readContent(store);
      expect(forwardEvents.length).to.be.at.least(50);
      await store.close();
      const reopenedStore = await openStore(dir, { limits });
      expect((await readContent(reopenedStore)).forwardEvents).to.deep.equal(forwardEvents);
      await reopenedStore.close();
    });
  }

  it("a full log accepts retries, and still rejects appends with a wrong expected revision", async () => {
    const store = await openStore(dir, { limits: { ...LIMITS, events: 50, streams: 20 } });
    const storedWrite = { ...createAppend("note-0", ["stored"]), expectedRevision: -1 };
    expect((await submit(store, storedWrite)).outcome).to.equal("written");
    await appendEvents(store, 49);
    const wrongWrite = { ...createAppend("note-0", ["other"]), expectedRevision: 700 };
    const writeResults = await Promise.all(
      [storedWrite, wrongWrite, createAppend("note-1", ["new"])].map((write) => submit(store, write)),
    );
    expect(writeResults.map(({ outcome }) => outcome)).to.deep.equal(["written", "wrong-revision", "log-full"]);
    expect(writeResults[0]).to.include({ revision: 0 });
    await store.close();
  });

  it("a group of writes to deleted streams with large metadata is stored in several frames", async () => {
    const store = await openStore(dir);
    const streams = Array.from({ length: 12 }, (_, n) => `large-${n}`);
    const createMetadataWrite = (stream: string) => {
      const [event] = createAppend(`$$${stream}`, ["x".repeat(1_000_000)]).events;
      return { ...createAppend(`$$${stream}`, []), events: [{ ...event!, type: "$metadata" }] };
    };
    for (const stream of streams) {
      await submit(store, createAppend(stream, ["one"]));
      await submit(store, createMetadataWrite(stream));
    }
    const deletions = streams.map((stream) => ({ ...createAppend(stream, []), kind: "soft-delete" as const }));
    await Promise.all(deletions.map((write) => submit(store, write)));
    for (const stream of streams) await submit(store, createMetadataWrite(stream));
    const repeatResults = await Promise.all(deletions.map((write) => submit(store, write)));
    const restoreResults = await Promise.all(streams.map((stream) => submit(store, createAppend(stream, ["back"]))));
    expect([...repeatResults, ...restoreResults].every(({ outcome }) => outcome === "written")).to.equal(true);
    const content = await readContent(store);
    await store.close();
    const reopenedStore = await openStore(dir);
    expect(await readContent(reopenedStore)).to.deep.equal(content);
    await reopenedStore.close();
  });

  it("a log with too many segments, events or streams does not start, and the error states the maximum", async () => {
    const store = await openStore(dir);
    await appendEvents(store, 50);
    await store.close();
    const error = await getRejection(openStore(dir, { limits: { ...LIMITS, segments: 0 } }));
    expect(error.message).to.match(/has 1 segments\. The limit is 0\.$/);
    for (const limits of [
      { ...LIMITS, events: 49 },
      { ...LIMITS, streams: 19 },
    ]) {
      const { message } = await getRejection(openStore(dir, { limits }));
      expect(message).to.match(/contains \d+ events of \d+ streams\. The limits are \d+ events and \d+ streams\./);
    }
  });

  it("an append to a log with the maximum number of events fails with an error that mentions the maximum size", async () => {
    const limits = { ...LIMITS, events: 2 };
    const server = await startLogServer({ dir, host: "127.0.0.1", port: 0, limits });
    const client = createClient(server.port);
    const append = () => client.appendToStream("s", jsonEvent({ type: "Noted", data: {} }));
    await append();
    await append();
    expect((await getRejection(append())).message).to.include("maximum size");
    expect(await collect(client.readAll())).to.have.length(2);
    await client.dispose();
    await server.stop();
  });
});
