/**
 * How fast webhooks are delivered, and whether bad receivers hold up good ones: `node --import tsx test/bench/webhooks.ts`.
 *
 * - throughput: events appended as fast as the log takes them, from the first append to the last receipt; and events
 *   that stood in the log already, from the first receipt to the last. The limit is taken in the same run: signing and
 *   posting as many bodies to the same sink over kept connections, nothing else. The service is two processes, each with
 *   some of the roles, as it is run to use two cores.
 * - memory: the most that the service holds while a hundred thousand deliveries are due, and how fast they go out.
 * - latency: from append to receipt at a steady rate.
 * - isolation: the same for a hundred good endpoints, alone, then beside endpoints that hang, drip, fail and refuse.
 * - fairness: the same beside 20 applications with 50 endpoints each that never answer, then that answer after 9 s.
 */
import { randomUUID } from "node:crypto";
import { createServer } from "node:net";
import os from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { createConnections } from "../../projection/webhooks/sending/connections.ts";
import { Exchange } from "../../projection/webhooks/sending/exchange.ts";
import { signatureHeaders } from "../../projection/webhooks/sending/signature.ts";
import { mochaGlobalTeardown } from "../support/stack.ts";
import { type BenchWorld, createBenchWorld, now, PROCESSES } from "./webhook-bench-world.ts";

const THROUGHPUT = { endpoints: 40, events: 20_000, appenders: 64, connections: 64, posts: 20_000 };
const LATENCY = { endpoints: 20, perSecond: 200, seconds: 10 };
const ISOLATION = { endpoints: 100, perSecond: 100, badPerSecond: 20, seconds: 15 };
const FAIRNESS = {
  endpoints: 100,
  perSecond: 100,
  seconds: 30,
  applications: 20,
  endpointsEach: 50,
  dueEach: 20,
};
const MEMORY = { endpoints: 100, deliveries: 100_000, seconds: 20 };
const WARM_UP = 2_000;

const BODY = JSON.stringify({
  ...{ id: randomUUID(), type: "appointment.created", apiVersion: "v1", createdAt: new Date().toISOString() },
  ...{ environment: "production", clinicId: randomUUID(), branchId: randomUUID() },
  data: { appointment: { id: randomUUID(), filler: "x".repeat(420) } },
});

/** Runs so many pieces of work, so many at a time. */
async function atOnce(workers: number, count: number, work: (n: number) => Promise<void>): Promise<void> {
  const numbers = Array.from({ length: count }, (_, n) => n).values();
  await Promise.all(
    Array.from({ length: workers }, async () => {
      for (const n of numbers) await work(n);
    }),
  );
}

/** Signed posts a second to the sink by the service's own client, with nothing around them. */
async function limit(url: string, count: number): Promise<number> {
  const { connections } = THROUGHPUT;
  const client = createConnections();
  const destination = { url: new URL(url), address: "127.0.0.1" };
  const secret = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
  const began = now();
  await atOnce(connections, count, async () => {
    const content = { deliveryId: randomUUID(), timestamp: Math.floor(Date.now() / 1_000), body: BODY };
    const headers = { "Content-Type": "application/json", ...signatureHeaders(content, [secret], "SERVICE") };
    const open = (fresh: boolean) => client.post("bench", destination, headers, fresh);
    await new Exchange().run(open, BODY, () => undefined);
  });
  const rate = count / ((now() - began) / 1_000);
  client.close();
  return rate;
}

const append = (world: BenchWorld, clinics: readonly string[], events: number) =>
  atOnce(THROUGHPUT.appenders, events, async (n) => {
    await world.appointment(clinics[n % clinics.length] ?? "");
  });

/** Deliveries a second while the events are appended on the same machine. */
async function throughput(world: BenchWorld, clinics: readonly string[], events: number): Promise<number> {
  world.forget();
  const began = now();
  await append(world, clinics, events);
  await world.received(events, 120_000);
  return events / ((Math.max(...world.receipts.values()) - began) / 1_000);
}

/** Deliveries a second of events that were appended while the service was away. */
async function backlog(world: BenchWorld, clinics: readonly string[], events: number): Promise<number> {
  world.forget();
  await append(world, clinics, events);
  await world.startService();
  await world.received(events, 120_000);
  const receipts = [...world.receipts.values()];
  return events / ((Math.max(...receipts) - Math.min(...receipts)) / 1_000);
}

/** A rate, and its share of the limit, which is taken before and after: a machine is not as fast at all times. */
async function besideLimit(
  world: BenchWorld,
  what: string,
  goal: string,
  measure: typeof throughput,
  clinics: readonly string[],
): Promise<void> {
  const before = await limit(world.sinkUrl, THROUGHPUT.posts);
  const rate = await measure(world, clinics, THROUGHPUT.events);
  const after = await limit(world.sinkUrl, THROUGHPUT.posts);
  const share = rate / ((before + after) / 2);
  row("signed posts to the sink, nothing else", `${before.toFixed(0)}/s, then ${after.toFixed(0)}/s`, "");
  row(what, `${rate.toFixed(0)}/s, ${share.toFixed(2)} of it`, goal);
}

async function memory(world: BenchWorld): Promise<void> {
  const { endpoints, deliveries, seconds } = MEMORY;
  await world.stopService();
  await world.makeDue(`${world.sinkUrl}/`, { applications: endpoints, endpointsEach: 1, deliveries });
  await world.startService();
  const before = await world.attempts();
  await sleep(seconds * 1_000);
  const rate = ((await world.attempts()) - before) / seconds;
  row(`${deliveries} deliveries due: most memory`, `${world.mostMemory().toFixed(0)} MiB`, "");
  row(`${deliveries} deliveries due: sent`, `${rate.toFixed(0)}/s`, "");
}

/** Appends at a steady rate, whatever becomes of it. @returns the events' ids */
async function steady(
  world: BenchWorld,
  clinics: readonly string[],
  perSecond: number,
  seconds: number,
): Promise<string[]> {
  const appends: Promise<string>[] = [];
  const began = now();
  for (let n = 0; n < perSecond * seconds; n += 1) {
    const ahead = began + (n * 1_000) / perSecond - now();
    if (ahead > 1) await sleep(ahead);
    appends.push(world.appointment(clinics[n % clinics.length] ?? ""));
  }
  return Promise.all(appends);
}

function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))] ?? Number.NaN;
}

async function latency(world: BenchWorld, clinics: readonly string[], perSecond: number, seconds: number) {
  world.forget();
  const ids = await steady(world, clinics, perSecond, seconds);
  await world.received(ids.length, 30_000);
  const waits = world.waits(ids);
  return [50, 95, 99].map((percent) => percentile(waits, percent)) as [number, number, number];
}

/** A port that nobody listens on. */
async function deadPort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function isolation(world: BenchWorld): Promise<void> {
  const { endpoints, perSecond, badPerSecond, seconds } = ISOLATION;
  const clinicsAt = (url: string, count: number) =>
    Promise.all(Array.from({ length: count }, () => world.endpoint(url)));
  const good = await clinicsAt(world.sinkUrl, endpoints);
  const badUrls = [
    ...["/black-hole", "/drip", "/error"].map((path) => `${world.sinkUrl}${path}`),
    `http://127.0.0.1:${await deadPort()}/`,
  ];
  const bad = (await Promise.all(badUrls.map((url) => clinicsAt(url, 1)))).flat();
  await latency(world, good, perSecond, 3);
  const alone = await latency(world, good, perSecond, seconds);
  // The same load of events in both runs: what differs is what the receivers do.
  const [beside] = await Promise.all([
    sleep(1_000).then(() => latency(world, good, perSecond, seconds)),
    steady(world, bad, badPerSecond, seconds + 1),
  ]);
  row(`${endpoints} good endpoints alone, ${perSecond} events/s`, percentiles(alone), "");
  row(`beside 4 bad ones with ${badPerSecond} events/s`, percentiles(beside), "");
  row("p99 beside bad ones, of p99 alone", (beside[2] / alone[2]).toFixed(2), "at most 2");
}

async function fairness(world: BenchWorld): Promise<void> {
  const { endpoints, perSecond, seconds, applications, endpointsEach, dueEach } = FAIRNESS;
  const good = await Promise.all(Array.from({ length: endpoints }, () => world.endpoint(world.sinkUrl)));
  const measure = () => latency(world, good, perSecond, seconds);
  await latency(world, good, perSecond, 3);
  // Alone before and after: a machine is not as fast at all times.
  let before = await measure();
  row(`${endpoints} good endpoints alone, ${perSecond} events/s`, percentiles(before), "");
  const bad = [
    { path: "/black-hole", what: "never answer" },
    { path: "/slow", what: "answer after 9 s" },
  ];
  for (const { path, what } of bad) {
    const deliveries = applications * endpointsEach * dueEach;
    await world.makeDue(`${world.otherSinkUrl}${path}`, { applications, endpointsEach, deliveries });
    await sleep(2_000);
    const beside = await measure();
    const held = world.mostMemory();
    await world.cancelDue();
    const after = await measure();
    row(`beside ${applications} applications that ${what}`, percentiles(beside), "");
    row("alone again", percentiles(after), "");
    row("p99 beside them, of p99 alone", ((2 * beside[2]) / (before[2] + after[2])).toFixed(2), "at most 2");
    row("most memory of a process", `${held.toFixed(0)} MiB`, "");
    before = after;
  }
}

const say = (line: string) => console.log(line);
const row = (what: string, measured: string, goal: string) =>
  say(`${what.padEnd(46)} ${measured.padEnd(26)} ${goal}`.trimEnd());
const percentiles = (values: readonly number[]) =>
  `${values.map((value) => value.toFixed(0)).join(" / ")} ms`;

say(
  `machine: ${os.availableParallelism()} × ${os.cpus()[0]?.model.trim()}, ${Math.round(os.totalmem() / 2 ** 30)} GiB, Node ${process.version}, load ${os.loadavg()[0]?.toFixed(1)}`,
);
say(`configuration: ${JSON.stringify({ PROCESSES, THROUGHPUT, LATENCY, ISOLATION, FAIRNESS, MEMORY })}`);
const world = await createBenchWorld();
try {
  const clinics = await Promise.all(
    Array.from({ length: THROUGHPUT.endpoints }, () => world.endpoint(world.sinkUrl)),
  );
  row("measured", "", "goal");
  await world.startService();
  await throughput(world, clinics, WARM_UP);
  const some = clinics.slice(0, LATENCY.endpoints);
  const waits = await latency(world, some, LATENCY.perSecond, LATENCY.seconds);
  row(`${LATENCY.perSecond} events/s: p50 / p95 / p99`, percentiles(waits), "p95 below 130 ms");
  await isolation(world);
  await fairness(world);
  await world.stopService();
  await limit(world.sinkUrl, WARM_UP);
  await besideLimit(world, "deliveries of events that were waiting", "0.25", backlog, clinics);
  await besideLimit(world, "deliveries beside appends", "", throughput, clinics);
  await memory(world);
} finally {
  await world.stop();
  await mochaGlobalTeardown();
}
