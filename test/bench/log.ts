/**
 * How fast the embedded log is, and how near to its limits: `node --import tsx test/bench/log.ts`.
 *
 * The log runs in a process of its own, the client in this one. Each limit is taken in the same run:
 * - appends: as many bytes in fsynced LevelDB batches of as many events as there are appenders;
 * - reads and subscriptions: the client's own decoding of the same messages, without a server.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EventStoreDBClient, jsonEvent, START } from "@eventstore/db-client";
import { convertGrpcEvent } from "@eventstore/db-client/dist/utils/convertGrpcEvent.js";
import streams from "@eventstore/db-client/generated/streams_pb.js";
import { ClassicLevel } from "classic-level";
import { encodeRecord, wireOf } from "../../deploy/local/eventstore/record.ts";

process.env.no_grpc_proxy = "127.0.0.1,localhost";

const SECONDS = 3;
const READ_EVENTS = 100_000;
const DATA = {
  animal: "a-7f3c",
  clinic: "c-19",
  scheduledAt: "2026-05-04T09:30:00.000Z",
  durationMinutes: 30,
};
const RECORD_BYTES = 500;

const event = () => jsonEvent({ type: "AppointmentRequested", data: DATA });
const perSecond = (count: number, began: number) => Math.round(count / ((performance.now() - began) / 1000));

function report(what: string, rate: number, limit: number, limitName: string): void {
  const ratio = (rate / limit).toFixed(2);
  console.log(`${what.padEnd(28)} ${String(rate).padStart(7)}/s   ${ratio} of ${limit}/s, ${limitName}`);
}

/** Appends from several appenders, each to a stream of its own and one at a time, for some seconds. */
async function appendRate(client: EventStoreDBClient, appenders: number): Promise<number> {
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

/** Events of the same size in fsynced batches, with nothing around them. */
async function diskRate(dir: string, batchSize: number): Promise<number> {
  const database = new ClassicLevel<string, Buffer>(join(dir, "limit"), { valueEncoding: "buffer" });
  const value = Buffer.alloc(RECORD_BYTES, "x");
  let count = 0;
  const began = performance.now();
  while (performance.now() < began + 1500) {
    const operations = Array.from({ length: batchSize }, () => {
      count += 1;
      return { type: "put" as const, key: String(count).padStart(12, "0"), value };
    });
    await database.batch(operations, { sync: true });
  }
  await database.close();
  return perSecond(count, began);
}

/** Decodes as many messages as the client does for that many events. */
function decodeRate(): number {
  const data = Buffer.from(JSON.stringify(DATA));
  const proposed = { ...event(), metadata: new Uint8Array(0), data };
  const wire = wireOf(
    encodeRecord(proposed, { stream: "bench-64-1", revision: 5, position: 5000, created: 1 }),
  );
  const began = performance.now();
  for (let n = 0; n < READ_EVENTS; n += 1) {
    const message = streams.ReadResp.deserializeBinary(new Uint8Array(wire)).getEvent();
    if (message !== undefined) convertGrpcEvent(message);
  }
  return perSecond(READ_EVENTS, began);
}

async function rateOf(events: AsyncIterable<unknown>, wanted: number): Promise<number> {
  let count = 0;
  const began = performance.now();
  for await (const _ of events) {
    count += 1;
    if (count === wanted) break;
  }
  return perSecond(count, began);
}

async function fill(client: EventStoreDBClient): Promise<void> {
  for (let done = 0; done < READ_EVENTS; done += 10_000) {
    const appends = Array.from({ length: 20 }, (_, n) =>
      client.appendToStream(`fill-${n}`, Array.from({ length: 500 }, event)),
    );
    await Promise.all(appends);
  }
}

const dir = await mkdtemp(join(tmpdir(), "bench-log-"));
const main = join(import.meta.dirname, "../../deploy/local/eventstore/main.ts");
const args = ["--import", "tsx", main, "--dir", join(dir, "log"), "--port", "0"];
const log = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
const [line] = await once(log.stdout, "data");
const port = String(line).trim().split(" ")[1];
const client = EventStoreDBClient.connectionString(`esdb://127.0.0.1:${port}?tls=false`);
try {
  await appendRate(client, 64);
  for (const appenders of [1, 64, 256]) {
    const limit = await diskRate(dir, appenders);
    const rate = await appendRate(client, appenders);
    report(
      `append, ${appenders} appender(s)`,
      rate,
      limit,
      `fsynced batches of ${appenders} × ${RECORD_BYTES} B`,
    );
  }
  await fill(client);
  decodeRate();
  const decoding = decodeRate();
  report("readAll", await rateOf(client.readAll(), READ_EVENTS), decoding, "the client's decoding alone");
  const subscription = client.subscribeToAll({ fromPosition: START });
  report("subscribeToAll, catch-up", await rateOf(subscription, READ_EVENTS), decoding, "the same");
} finally {
  await client.dispose();
  log.kill("SIGTERM");
  await once(log, "close");
  await rm(dir, { recursive: true });
}
