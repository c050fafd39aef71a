/**
 * Measures the speed of the embedded log and compares it with upper limits: `npm run bench -- log`.
 *
 * The log runs in a separate process, and the client runs in this process. Each upper limit is measured in the same
 * run:
 * - Appends are compared with a loop that appends a batch of the same size to a file and flushes the file. A batch has
 *   one event for each appender.
 * - Reads and subscriptions are compared with a client that decodes the same messages without a server.
 * - Starts have no upper limit. A start verifies the whole log, and the benchmark prints its duration for a million
 *   events.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EventStoreDBClient, jsonEvent, START } from "@eventstore/db-client";
import { convertGrpcEvent } from "@eventstore/db-client/dist/utils/convertGrpcEvent.js";
import streams from "@eventstore/db-client/generated/streams_pb.js";
import { encodeRecord, readWireBytes } from "../../deploy/local/eventstore/model/record.ts";
import { printRow } from "./report.ts";

process.env.no_grpc_proxy = "127.0.0.1,localhost";

const SECONDS = 3;
const READ_EVENTS = 100_000;
const START_EVENTS = 1_000_000;
const DATA = {
  animal: "a-7f3c",
  clinic: "c-19",
  scheduledAt: "2026-05-04T09:30:00.000Z",
  durationMinutes: 30,
};
const RECORD_BYTES = 500;

const event = () => jsonEvent({ type: "AppointmentRequested", data: DATA });
const perSecond = (count: number, began: number) => Math.round(count / ((performance.now() - began) / 1000));

/**
 * Appends for three seconds. Each appender writes to its own stream and waits for each append.
 *
 * @returns events per second
 */
async function measureAppendRate(client: EventStoreDBClient, appenders: number): Promise<number> {
  let count = 0;
  const began = performance.now();
  const end = began + SECONDS * 1000;
  const appender = async (n: number) => {
    while (performance.now() < end) {
      await client.appendToStream(`bench-${appenders}-${n}`, event());
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: appenders }, (_, n) => appender(n)));
  return perSecond(count, began);
}

/** Appends records of the same size to a file and flushes it after each batch. @returns records per second */
async function diskRate(dir: string, batchSize: number): Promise<number> {
  const file = await open(join(dir, "limit"), "a");
  const batch = Buffer.alloc(RECORD_BYTES * batchSize, "x");
  let count = 0;
  const began = performance.now();
  while (performance.now() < began + 1500) {
    await file.write(batch);
    await file.datasync();
    count += batchSize;
  }
  await file.close();
  return perSecond(count, began);
}

/** Decodes one message repeatedly, as the client does for each event that it reads. @returns messages per second */
function decodeRate(): number {
  const data = Buffer.from(JSON.stringify(DATA));
  const proposed = { ...event(), metadata: new Uint8Array(0), data };
  const wire = readWireBytes(encodeRecord(proposed, { stream: "bench-64-1", revision: 5, position: 5000, created: 1 }));
  const began = performance.now();
  for (let n = 0; n < READ_EVENTS; n += 1) {
    const message = streams.ReadResp.deserializeBinary(new Uint8Array(wire)).getEvent();
    if (message !== undefined) convertGrpcEvent(message);
  }
  return perSecond(READ_EVENTS, began);
}

async function measureRate(events: AsyncIterable<unknown>, wanted: number): Promise<number> {
  let count = 0;
  const began = performance.now();
  for await (const _ of events) {
    count += 1;
    if (count === wanted) break;
  }
  return perSecond(count, began);
}

/** Appends events in batches of 10,000. */
async function fill(client: EventStoreDBClient, events: number): Promise<void> {
  for (let done = 0; done < events; done += 10_000) {
    const appends = Array.from({ length: 20 }, (_, n) =>
      client.appendToStream(`fill-${(done / 10_000) % 100}-${n}`, Array.from({ length: 500 }, event)),
    );
    await Promise.all(appends);
  }
}

/** Reads 20 events of a stream repeatedly, with 8 concurrent readers. @returns reads per second */
async function streamReadRate(client: EventStoreDBClient): Promise<number> {
  let count = 0;
  const began = performance.now();
  const reader = async (n: number) => {
    for (let round = 0; round < 100; round += 1) {
      const options = { fromRevision: BigInt(round), maxCount: 20 };
      for await (const _ of client.readStream(`bench-64-${(n + round) % 64}`, options));
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, n) => reader(n)));
  return perSecond(count, began);
}

const dir = await mkdtemp(join(tmpdir(), "bench-log-"));
const main = join(import.meta.dirname, "../../deploy/local/eventstore/main.ts");

/** Starts the log. @returns a client, a function that stops the log, and the duration of the start */
async function startLog() {
  const args = ["--import", "tsx", main, "--dir", join(dir, "log"), "--port", "0"];
  const began = performance.now();
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(child.stdout, "data");
  const port = String(line).trim().split(" ")[1];
  const client = EventStoreDBClient.connectionString(`esdb://127.0.0.1:${port}?tls=false`);
  const stop = async () => {
    await client.dispose();
    child.kill("SIGTERM");
    await once(child, "close");
  };
  return { client, stop, milliseconds: Math.round(performance.now() - began) };
}

let log = await startLog();
printRow({ name: "log: start, empty", p50: log.milliseconds });
try {
  await measureAppendRate(log.client, 64);
  for (const appenders of [1, 64, 256]) {
    const reference = await diskRate(dir, appenders);
    const ours = await measureAppendRate(log.client, appenders);
    printRow({ name: `log: ${appenders} concurrent appends`, ours, reference });
  }
  await fill(log.client, READ_EVENTS);
  decodeRate();
  const reference = decodeRate();
  printRow({ name: "log: readAll", ours: await measureRate(log.client.readAll(), READ_EVENTS), reference });
  const subscription = log.client.subscribeToAll({ fromPosition: START });
  printRow({ name: "log: subscribeToAll, catch-up", ours: await measureRate(subscription, READ_EVENTS), reference });
  printRow({ name: "log: readStream, 20 events", ours: await streamReadRate(log.client) });
  await fill(log.client, START_EVENTS);
  await log.stop();
  log = await startLog();
  printRow({ name: `log: start with ${START_EVENTS} more events`, p50: log.milliseconds });
} finally {
  await log.stop();
  await rm(dir, { recursive: true });
}
