import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { startLogServer } from "../../../deploy/local/eventstore/server.ts";
import { collect, rejection } from "../../conformance/log-under-test.ts";
import { clientOf, temporaryDir } from "./log-process.ts";
import { appendOf, fill, openStore, readContent, submit } from "./stored-log.ts";

const BOUNDS = { events: 1_000, streams: 1_000, segments: 1_000 };

describe("the bounds of the embedded log", function () {
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
    it(`a log that has reached its bound of ${what} refuses appends and goes on reading`, async () => {
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

  it("a log beyond its bounds does not start, with one line", async () => {
    const store = await openStore(dir);
    await fill(store, 50);
    await store.close();
    const few = await rejection(openStore(dir, { bounds: { ...BOUNDS, segments: 0 } }));
    expect(few.message).to.match(/has 1 segments; the bound is 0\.$/);
    for (const bounds of [
      { ...BOUNDS, events: 49 },
      { ...BOUNDS, streams: 19 },
    ]) {
      const { message } = await rejection(openStore(dir, { bounds }));
      expect(message).to.match(/holds \d+ events of \d+ streams; its bounds are \d+ and \d+\./);
    }
  });

  it("a client is told that the log has reached its largest size", async () => {
    const bounds = { ...BOUNDS, events: 3 };
    const server = await startLogServer({ dir, host: "127.0.0.1", port: 0, bounds });
    const client = clientOf(server.port);
    const append = () => client.appendToStream("s", jsonEvent({ type: "Noted", data: {} }));
    await append();
    await append();
    expect((await rejection(append())).message).to.include("largest size");
    expect(await collect(client.readAll())).to.have.length(2);
    await client.dispose();
    await server.stop();
  });
});
