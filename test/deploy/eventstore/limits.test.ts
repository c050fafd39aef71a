import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { startLogServer } from "../../../deploy/local/eventstore/server.ts";
import { collect, getRejection } from "../../conformance/log-under-test.ts";
import { createClient, createTemporaryDir } from "./log-process.ts";
import { appendEvents, createAppendRequest, openStore, readContent, submit } from "./stored-log.ts";

const LIMITS = { maxEvents: 1_000, maxStreams: 1_000 };

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
  ] as const) {
    it(`a log with the maximum number of ${limitName} refuses appends but serves reads`, async () => {
      const store = await openStore(dir, { limits });
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
    expect(await submit(store, storedWrite)).to.include({ outcome: "written", revision: 0 });
    expect((await submit(store, wrongWrite)).outcome).to.equal("wrong-revision");
    expect((await submit(store, createAppendRequest("note-1", ["new"]))).outcome).to.equal("log-full");
    await store.close();
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
