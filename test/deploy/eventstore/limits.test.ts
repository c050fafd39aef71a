import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { startLogServer } from "../../../deploy/local/eventstore/server.ts";
import { collect, getRejection } from "../../conformance/log-under-test.ts";
import { createClient, createTemporaryDir } from "./log-process.ts";
import { appendEvents, createAppendRequest, openStore, readContent, submit } from "./stored-log.ts";

const LIMITS = { maxEvents: 1_000, maxStreams: 1_000, maxSegments: 1_000 };

describe("the limits of the embedded log", function () {
  this.timeout(60_000);
  let dir: string;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    ({ dir, remove } = await createTemporaryDir());
  });
  afterEach(() => remove());

  for (const [limitName, limits] of [
    ["events", { ...LIMITS, maxEvents: 90 }],
    ["streams", { ...LIMITS, maxStreams: 72 }],
    ["segments", { ...LIMITS, maxSegments: 1 }],
  ] as const) {
    it(`a log with the maximum number of ${limitName} refuses appends but serves reads`, async () => {
      const store = await openStore(dir, { limits, segmentBytes: 10_000 });
      await appendEvents(store, 50);
      let outcome = "written";
      for (let n = 0; outcome === "written" && n < 100; n += 1) {
        ({ outcome } = await submit(store, createAppendRequest(`more-${n}`, ["one"])));
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
    const store = await openStore(dir, { limits: { ...LIMITS, maxEvents: 50, maxStreams: 20 } });
    const storedWrite = { ...createAppendRequest("note-0", ["stored"]), expectedRevision: -1 };
    expect((await submit(store, storedWrite)).outcome).to.equal("written");
    await appendEvents(store, 49);
    const wrongWrite = { ...createAppendRequest("note-0", ["other"]), expectedRevision: 700 };
    const writeResults = await Promise.all(
      [storedWrite, wrongWrite, createAppendRequest("note-1", ["new"])].map((write) => submit(store, write)),
    );
    expect(writeResults.map(({ outcome }) => outcome)).to.deep.equal(["written", "wrong-revision", "log-full"]);
    expect(writeResults[0]).to.include({ revision: 0 });
    await store.close();
  });

  it("a group of writes to deleted streams with large metadata is stored in several frames", async () => {
    const store = await openStore(dir);
    const streams = Array.from({ length: 12 }, (_, n) => `large-${n}`);
    const createMetadataWrite = (stream: string) => {
      const [event] = createAppendRequest(`$$${stream}`, ["x".repeat(1_000_000)]).events;
      return { ...createAppendRequest(`$$${stream}`, []), events: [{ ...event!, type: "$metadata" }] };
    };
    for (const stream of streams) {
      await submit(store, createAppendRequest(stream, ["one"]));
      await submit(store, createMetadataWrite(stream));
    }
    const deletions = streams.map((stream) => ({ ...createAppendRequest(stream, []), kind: "soft-delete" as const }));
    await Promise.all(deletions.map((write) => submit(store, write)));
    for (const stream of streams) await submit(store, createMetadataWrite(stream));
    const repeatResults = await Promise.all(deletions.map((write) => submit(store, write)));
    const restoreResults = await Promise.all(
      streams.map((stream) => submit(store, createAppendRequest(stream, ["back"]))),
    );
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
    const error = await getRejection(openStore(dir, { limits: { ...LIMITS, maxSegments: 0 } }));
    expect(error.message).to.match(/has 1 segments\. The limit is 0\.$/);
    for (const limits of [
      { ...LIMITS, maxEvents: 49 },
      { ...LIMITS, maxStreams: 19 },
    ]) {
      const { message } = await getRejection(openStore(dir, { limits }));
      expect(message).to.match(/contains \d+ events of \d+ streams\. The limits are \d+ events and \d+ streams\./);
    }
  });

  it("an append to a log with the maximum number of events fails with an error that mentions the maximum size", async () => {
    const limits = { ...LIMITS, maxEvents: 2 };
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
