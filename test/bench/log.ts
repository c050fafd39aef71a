/**
 * Measures the speed of the embedded log and compares it with upper limits: `npm run bench -- log`.
 *
 * The log runs in a separate process, and the client runs in this process. The upper limits are measured in the same
 * run:
 * - Appends: a loop that appends records of the same size to a file and flushes it after each batch. The batch has as
 *   many records as the log has concurrent appenders.
 * - Reads and subscriptions: a loop that decodes the same messages with the client, without a server.
 *
 * The start of a log with a million events has no upper limit. A start verifies the whole log.
 */
import { open } from "node:fs/promises";
import { join } from "node:path";
import { type EventStoreDBClient, jsonEvent, START } from "@eventstore/db-client";
import { convertGrpcEvent } from "@eventstore/db-client/dist/utils/convertGrpcEvent.js";
import streams from "@eventstore/db-client/generated/streams_pb.js";
import { encodeRecord, readWireBytes } from "../../deploy/local/eventstore/model/record.ts";
import { LogProcess, makeTemporaryDir } from "../deploy/eventstore/log-process.ts";
import { mochaGlobalTeardown } from "../support/stack.ts";
import { measureRate } from "./load.ts";
import { printRow } from "./report.ts";

const MEASURED_SECONDS = 3;
const READ_EVENT_COUNT = 100_000;
const START_EVENT_COUNT = 1_000_000;
const EVENT_DATA = { animal: "a-7f3c", clinic: "c-19", scheduledAt: "2026-05-04T09:30:00.000Z", durationMinutes: 30 };
const RECORD_BYTES = 500;

const createEvent = () => jsonEvent({ type: "AppointmentRequested", data: EVENT_DATA });
const computeRate = (count: number, startedAt: number) => Math.round(count / ((performance.now() - startedAt) / 1000));

/** Runs a task repeatedly for three seconds. @returns runs per second */
async function measure(concurrency: number, runTask: () => Promise<unknown>): Promise<number> {
  const options = { runTask, concurrency, pids: {}, warmUpMs: 0, measuredMs: MEASURED_SECONDS * 1_000 };
  return (await measureRate(options)).rate;
}

/** Appends events for three seconds. Each appender has its own stream. @returns events per second */
async function measureAppendRate(client: EventStoreDBClient, appenderCount: number): Promise<number> {
  let count = 0;
  const runTask = () => client.appendToStream(`bench-${appenderCount}-${count++ % appenderCount}`, createEvent());
  return measure(appenderCount, runTask);
}

/** Appends records of an event's size to a file and flushes the file after each batch. @returns records per second */
async function measureDiskRate(dir: string, batchSize: number): Promise<number> {
  const file = await open(join(dir, "limit"), "a");
  const batch = Buffer.alloc(RECORD_BYTES * batchSize, "x");
  let count = 0;
  const startedAt = performance.now();
  while (performance.now() < startedAt + 1500) {
    await file.write(batch);
    await file.datasync();
    count += batchSize;
  }
  await file.close();
  return computeRate(count, startedAt);
}

/** Decodes the message of one event repeatedly, as the client does for each read event. @returns messages per second */
function measureDecodeRate(): number {
  const data = Buffer.from(JSON.stringify(EVENT_DATA));
  const event = { ...createEvent(), metadata: new Uint8Array(0), data };
  const bytes = readWireBytes(encodeRecord(event, { stream: "bench-64-1", revision: 5, position: 5000, createdAt: 1 }));
  const startedAt = performance.now();
  for (let n = 0; n < READ_EVENT_COUNT; n += 1) {
    const message = streams.ReadResp.deserializeBinary(new Uint8Array(bytes)).getEvent();
    if (message !== undefined) convertGrpcEvent(message);
  }
  return computeRate(READ_EVENT_COUNT, startedAt);
}

async function measureReadRate(events: AsyncIterable<unknown>, wantedCount: number): Promise<number> {
  let count = 0;
  const startedAt = performance.now();
  for await (const _ of events) {
    count += 1;
    if (count === wantedCount) break;
  }
  return computeRate(count, startedAt);
}

/** Appends events in batches of 10,000. */
async function fillLog(client: EventStoreDBClient, eventCount: number): Promise<void> {
  for (let appendedCount = 0; appendedCount < eventCount; appendedCount += 10_000) {
    const appendPromises = Array.from({ length: 20 }, (_, n) =>
      client.appendToStream(`fill-${(appendedCount / 10_000) % 100}-${n}`, Array.from({ length: 500 }, createEvent)),
    );
    await Promise.all(appendPromises);
  }
}

/** Reads 20 events of a stream repeatedly, in 8 concurrent workers. @returns reads per second */
function measureStreamReadRate(client: EventStoreDBClient): Promise<number> {
  let count = 0;
  return measure(8, async () => {
    const options = { fromRevision: BigInt(count % 100), maxCount: 20 };
    for await (const _ of client.readStream(`bench-64-${count++ % 64}`, options));
  });
}

const dir = makeTemporaryDir();

/** Starts the log. @returns the log, a client, and the duration of the start */
async function startLog() {
  const startedAt = performance.now();
  const log = await LogProcess.start(join(dir, "log"));
  return { log, client: log.createClient(), milliseconds: Math.round(performance.now() - startedAt) };
}

let running = await startLog();
printRow({ name: "log: start, empty", p50: running.milliseconds, isDetail: true });
try {
  const { client } = running;
  await measureAppendRate(client, 64);
  for (const appenderCount of [1, 64, 256]) {
    const referenceRate = await measureDiskRate(dir, appenderCount);
    const rate = await measureAppendRate(client, appenderCount);
    printRow({ name: `log: ${appenderCount} concurrent appends`, rate, referenceRate });
  }
  await fillLog(client, READ_EVENT_COUNT);
  measureDecodeRate();
  const referenceRate = measureDecodeRate();
  printRow({
    name: "log: readAll",
    rate: await measureReadRate(client.readAll(), READ_EVENT_COUNT),
    referenceRate,
  });
  const subscription = client.subscribeToAll({ fromPosition: START });
  printRow({
    name: "log: subscribeToAll, catch-up",
    rate: await measureReadRate(subscription, READ_EVENT_COUNT),
    referenceRate,
  });
  printRow({ name: "log: readStream, 20 events", rate: await measureStreamReadRate(client), isDetail: true });
  await fillLog(client, START_EVENT_COUNT);
  await running.log.kill();
  running = await startLog();
  printRow({ name: `log: start with ${START_EVENT_COUNT} more events`, p50: running.milliseconds });
} finally {
  await mochaGlobalTeardown();
}
