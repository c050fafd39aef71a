import { randomUUID } from "node:crypto";
import { type EventEmitter, getEventListeners } from "node:events";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { scanLog } from "../../../command/audit/log/scan.ts";
import { createWaits } from "../../../query-api/partner/waits.ts";
import { appendEventsInSharedCall } from "../../../shared/eventstore/append.ts";
import { toGrpcClient } from "../../../shared/eventstore/grpc-client.ts";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import { readEventAt, readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { runTaskGroup, waitUnlessAborted } from "../../../shared/runtime/abort.ts";
import { createNotifier, pause } from "../../../shared/runtime/backoff.ts";
import { connectToLog } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { startSeparateLog } from "../../support/own-log.ts";
import { useResource } from "../../support/resources.ts";

const CALL_COUNT = 10_000;
const CONCURRENCY = 50;

async function repeat(count: number, run: () => Promise<unknown>): Promise<void> {
  for (let done = 0; done < count; done += CONCURRENCY)
    await Promise.all(Array.from({ length: Math.min(CONCURRENCY, count - done) }, run));
}

describe("listeners after many calls", function () {
  this.timeout(180_000);
  const log = useResource(startSeparateLog);
  let client: EventStoreDBClient;

  before(async () => {
    client = connectToLog(log.eventstoreUrl);
  });

  /** Counts the listeners of all calls that the client keeps to cancel them on disposal. */
  function countListeners(): number {
    const calls = [...toGrpcClient(client).disposableStreams] as EventEmitter[];
    return calls.reduce(
      (sum, call) => sum + call.eventNames().reduce((count, name) => count + call.listenerCount(name), 0),
      0,
    );
  }

  const append = () => {
    const event = { id: randomUUID(), type: "Tested", contentType: "application/json" };
    const bytes = { data: Buffer.from("{}"), metadata: Buffer.from("{}") };
    return appendEventsInSharedCall(client, `test-${randomUUID()}`, -1n, [{ ...event, ...bytes }], 10_000);
  };

  it(`${CALL_COUNT} appends in shared calls add no listener and no call`, async () => {
    await append();
    const listenerCount = countListeners();
    expect(listenerCount).to.be.above(0);
    await repeat(CALL_COUNT - 1, append);
    expect(toGrpcClient(client).disposableStreams.size).to.equal(1);
    expect(countListeners()).to.equal(listenerCount);
  });

  it(`${CALL_COUNT} reads leave neither calls nor listeners, whether they end early or not`, async () => {
    const eventLog = createEventLog(client);
    await repeat(CALL_COUNT / 4, () => eventLog.read(`missing-${randomUUID()}`));
    await repeat(CALL_COUNT / 4, () => eventLog.readLast(`missing-${randomUUID()}`));
    await repeat(CALL_COUNT / 4, () => readLogEnd(client));
    await repeat(CALL_COUNT / 4, () => readEventAt(client, 0n));
    await eventually("all calls have ended", () => countListeners() === 0);
  });

  it("waits and scans with a signal remove their listeners from it", async () => {
    const { signal } = new AbortController();
    const notifier = createNotifier();
    const waitsForEvents = createWaits({} as never, async () => ({ position: "0", lastPositions: {} }));
    const waits: Record<string, () => Promise<unknown>> = {
      pause: () => pause(0, signal),
      waitUnlessAborted: () => waitUnlessAborted(Promise.resolve(), signal),
      failedWait: () => waitUnlessAborted(Promise.reject(new Error("failed")), signal).catch(() => undefined),
      taskGroup: () => runTaskGroup(signal, [async () => undefined]),
      sleep: () => notifier.sleep(0, signal),
      forEvent: () => waitsForEvents.forEvent(randomUUID(), randomUUID(), 0n, 1, signal),
    };
    for (const [name, wait] of Object.entries(waits)) {
      for (let count = 0; count < 100; count += 1) await wait();
      await eventually(`no listener of ${name}`, () => getEventListeners(signal, "abort").length === 0);
    }
    waitsForEvents.stop();
    const endPosition = await readLogEnd(client);
    for (let count = 0; count < 20; count += 1)
      for await (const _ of scanLog({ client, after: undefined, endPosition, signal })) break;
    await eventually("no listener of a scan", () => getEventListeners(signal, "abort").length === 0);
    await eventually("all subscriptions have ended", () => countListeners() === 0);
  });
});
