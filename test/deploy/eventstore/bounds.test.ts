import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { startLogServer } from "../../../deploy/local/eventstore/server.ts";
import { collect, rejection } from "../../conformance/log-under-test.ts";
import { clientOf, temporaryDir } from "./log-process.ts";
import { appendOf, fill, openStore, readContent, submit } from "./stored-log.ts";

const BOUNDS = { events: 1_000, streams: 1_000, segments: 1_000 };

describe("the limits of the embedded log", function () {
  this.timeout(60_000);
  let dir: string;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    ({ dir, remove } = await temporaryDir());
  });
  afterEach(() => remove());

  for (const [what, bounds] of [
    ["events", { ...BOUNDS, events: 90 }],
    ["streams", { ...BOUNDS, streams: 72 }],
    ["segments", { ...BOUNDS, segments: 1 }],
  ] as const) {
    it(`a log that has reached its limit of ${what} refuses appends and serves reads`, async () => {
      const store = await openStore(dir, { bounds, segmentBytes: 10_000 });
      await fill(store, 50);
      let outcome = "written";
      for (let n = 0; outcome === "written" && n < 100; n += 1) {
        ({ outcome } = await submit(store, appendOf(`more-${n}`, ["one"])));
      }
      expect(outcome).to.equal("log-full");
      const { forwards } = await readContent(store);
      expect(forwards.length).to.be.at.least(50);
      await store.close();
      const again = await openStore(dir, { bounds });
      expect((await readContent(again)).forwards).to.deep.equal(forwards);
      await again.close();
    });
  }

  it("a log at its limit accepts retries of stored appends and refuses an append with a wrong revision as such", async () => {
    const store = await openStore(dir, { bounds: { ...BOUNDS, events: 50, streams: 20 } });
    const stored = { ...appendOf("note-0", ["stored"]), expected: -1 };
    expect((await submit(store, stored)).outcome).to.equal("written");
    await fill(store, 49);
    const wrong = { ...appendOf("note-0", ["other"]), expected: 700 };
    const results = await Promise.all(
      [stored, wrong, appendOf("note-1", ["new"])].map((write) => submit(store, write)),
    );
    expect(results.map(({ outcome }) => outcome)).to.deep.equal(["written", "wrong-revision", "log-full"]);
    expect(results[0]).to.include({ revision: 0 });
    await store.close();
  });

  it("a group of writes is stored in several frames if restored metadata makes it larger than one frame", async () => {
    const store = await openStore(dir);
    const streams = Array.from({ length: 12 }, (_, n) => `large-${n}`);
    const metadata = (stream: string) => {
      const [event] = appendOf(`$$${stream}`, ["x".repeat(1_000_000)]).events;
      return { ...appendOf(`$$${stream}`, []), events: [{ ...event!, type: "$metadata" }] };
    };
    for (const stream of streams) {
      await submit(store, appendOf(stream, ["one"]));
      await submit(store, metadata(stream));
    }
    const deleted = streams.map((stream) => ({ ...appendOf(stream, []), kind: "soft-delete" as const }));
    await Promise.all(deleted.map((write) => submit(store, write)));
    for (const stream of streams) await submit(store, metadata(stream));
    const again = await Promise.all(deleted.map((write) => submit(store, write)));
    const back = await Promise.all(streams.map((stream) => submit(store, appendOf(stream, ["back"]))));
    expect([...again, ...back].every(({ outcome }) => outcome === "written")).to.equal(true);
    const content = await readContent(store);
    await store.close();
    const opened = await openStore(dir);
    expect(await readContent(opened)).to.deep.equal(content);
    await opened.close();
  });

  it("a log that exceeds its limits does not start and prints one line", async () => {
    const store = await openStore(dir);
    await fill(store, 50);
    await store.close();
    const few = await rejection(openStore(dir, { bounds: { ...BOUNDS, segments: 0 } }));
    expect(few.message).to.match(/has 1 segments\. The limit is 0\.$/);
    for (const bounds of [
      { ...BOUNDS, events: 49 },
      { ...BOUNDS, streams: 19 },
    ]) {
      const { message } = await rejection(openStore(dir, { bounds }));
      expect(message).to.match(
        /contains \d+ events of \d+ streams\. The limits are \d+ events and \d+ streams\./,
      );
    }
  });

  it("an append to a log at its limit fails with an error that mentions the maximum size", async () => {
    const bounds = { ...BOUNDS, events: 2 };
    const server = await startLogServer({ dir, host: "127.0.0.1", port: 0, bounds });
    const client = clientOf(server.port);
    const append = () => client.appendToStream("s", jsonEvent({ type: "Noted", data: {} }));
    await append();
    await append();
    expect((await rejection(append())).message).to.include("maximum size");
    expect(await collect(client.readAll())).to.have.length(2);
    await client.dispose();
    await server.stop();
  });
});
