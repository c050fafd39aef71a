import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Worker } from "node:worker_threads";
import { expect } from "chai";
import { buildTablesDdl } from "../../../projection/engine/ddl.ts";
import { runProjection } from "../../../projection/engine/projection.ts";
import type { ProjectionProgress } from "../../../projection/engine/projection-options.ts";
import { readInThread } from "../../../projection/engine/read-log.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import type { SubscriptionItem } from "../../../shared/eventstore/subscription.ts";
import { eventually } from "../../support/eventually.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { useResource } from "../../support/resources.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";
import { createEngineWorld, createRegisteredEvent, createRenamedEvent, logger } from "../engine-world.ts";

/** More events than two batches, and than one message of the thread, can hold. */
const EVENT_COUNT = 4_500;

describe("reading all of the log", () => {
  const world = useResource(createEngineWorld);
  let lastPosition: bigint;
  const id = randomUUID();
  const stream = `customer-${id}`;
  const neverAbortedSignal = new AbortController().signal;

  before(async () => {
    await world.append(stream, createRegisteredEvent(id, "Ana 0"));
    const renames = Array.from({ length: EVENT_COUNT - 1 }, (_, index) => createRenamedEvent(id, `Ana ${index + 1}`));
    for (let start = 0; start < renames.length; start += 500)
      lastPosition = await world.append(stream, ...renames.slice(start, start + 500));
  });

  it("a rebuild that reads in a thread waits while the log is unreachable, and then contains all events", async () => {
    const proxy = await startFaultProxy(world.eventstoreUrl);
    proxy.disconnect();
    let progress: ProjectionProgress | undefined;
    const onProgress = (newProgress: ProjectionProgress) => {
      progress = newProgress;
    };
    const readLog = readInThread(proxy.url);
    const rebuildPromise = world.rebuild({ readLog, onProgress });
    await eventually("it waits for the log", () => progress?.waitsFor === "the event log");
    proxy.restore();
    expect(await rebuildPromise).to.equal(lastPosition);
    expect(await world.readName(id)).to.equal(`Ana ${EVENT_COUNT - 1}`);
  });

  it("if the reading thread is killed, a verification reads the remaining events in a new thread", async () => {
    process.once("worker", (worker: Worker) => worker.once("message", () => void worker.terminate()));
    let lastError: Error | null = null;
    const onProgress = (progress: ProjectionProgress) => {
      lastError ??= progress.lastError;
    };
    const { differenceCount } = await world.verify({ readLog: readInThread(world.eventstoreUrl), onProgress });
    expect(differenceCount).to.equal(0);
    expect(lastError).to.have.property("message", "The thread that reads the event log has ended");
  });

  it("reading ends when its signal aborts", async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const kinds: string[] = [];
    const readLog = readInThread(world.eventstoreUrl);
    for await (const { kind } of readLog({ after: lastPosition, signal })) {
      kinds.push(kind);
      controller.abort();
    }
    expect(kinds).to.deep.equal(["caughtUp"]);
  });

  it("a failure of the thread that arrives after the abort does not end the process", async () => {
    const proxy = await startFaultProxy(world.eventstoreUrl);
    const controller = new AbortController();
    for await (const _ of readInThread(proxy.url)({ after: lastPosition, signal: controller.signal })) {
      proxy.disconnect();
      await nextTurn();
      // While this thread is blocked, the other one fails. Its failure is delivered after the abort.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
      controller.abort();
    }
    // An uncaught error would fail the test.
  });

  it("the batches of stored events are full if the tables are unused, and live events are written immediately", async () => {
    const schema = "unused_tables";
    await world.pool.query(buildTablesDdl(readModels, schema));
    const batchSizes: number[] = [];
    const stopController = new AbortController();
    let appendPromise: Promise<bigint> | undefined;
    await runProjection(
      {
        ...world,
        models: readModels,
        logger,
        schema,
        fillsUnusedTables: true,
        onBatch: (eventCount) => batchSizes.push(eventCount),
        onProgress: ({ hasCaughtUp, eventCount }) => {
          if (hasCaughtUp) appendPromise ??= world.append(stream, createRenamedEvent(id, "live"));
          if (eventCount > EVENT_COUNT) stopController.abort();
        },
      },
      stopController.signal,
    );
    await appendPromise;
    expect(batchSizes).to.deep.equal([2_000, 2_000, 500, 1]);
    const { rows } = await world.pool.query(`SELECT full_name FROM ${schema}.customer`);
    expect(rows).to.deep.equal([{ full_name: "live" }]);
  });

  it("the thread delivers an unreadable event with the reason, and then the later events", async () => {
    const clinicId = randomUUID();
    const metadata = { ...createStoredMetadata(), clinicId };
    const position = await world.append(stream, { type: "CustomerDetailsChanged", data: { fullName: 7 }, metadata });
    await world.append(stream, createRenamedEvent(id, "after"));
    const items: SubscriptionItem[] = [];
    const readLog = readInThread(world.eventstoreUrl);
    for await (const item of readLog({ after: undefined, signal: neverAbortedSignal })) {
      if (item.kind === "caughtUp") break;
      items.push(item);
    }
    const unreadableItem = items.find(({ kind }) => kind === "unreadable");
    // One more event was appended live.
    const revision = BigInt(EVENT_COUNT + 1);
    const event = { stream, position, revision, type: "CustomerDetailsChanged", metadata: { clinicId } };
    expect(unreadableItem).to.have.property("event").that.deep.includes(event);
    expect(unreadableItem).to.have.property("reason").that.contains("data.fullName must be of type string");
    const revisions = items.map((item) => Number(item.kind === "event" ? item.event.revision : revision));
    expect(revisions).to.deep.equal([...Array(EVENT_COUNT + 3).keys()]);
  });
});
