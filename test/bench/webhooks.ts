/**
 * Measures how fast webhooks are delivered, and how much failing receivers delay healthy receivers: `node --import tsx
 * test/bench/webhooks.ts`. With the argument `throughput`, measures only throughput and cost.
 *
 * - throughput: Deliveries per second, first while events are appended, then for events that were appended before the
 *   service started. The upper limit is measured in the same run: the benchmark itself signs and posts the same number
 *   of bodies to the same receiver over reused connections, with the service's HTTP client. The service runs as two
 *   processes, so that it uses two cores. In one of the runs, each event has five endpoints. The number of repeated
 *   requests and of invalid signatures must be zero.
 * - cost: CPU time and WAL per delivery while events are appended.
 * - memory: Peak memory of the service while 100,000 deliveries are due, and the number of deliveries per second.
 * - latency: Time from append to receipt at a steady rate.
 * - isolation: Latency of 100 healthy endpoints, first alone, then together with endpoints that fail in four ways.
 * - fairness: Latency of 100 healthy endpoints together with 20 applications with 50 endpoints each. In the first run,
 *   these applications' endpoints never respond. In the second run, they respond after 9 seconds.
 */
import { createServer } from "node:net";
import os from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { mochaGlobalTeardown } from "../support/stack.ts";
import { measureSignedPosts, runConcurrently, THROUGHPUT } from "./signed-posts.ts";
import { type BenchWorld, createBenchWorld, now, SERVICE_PROCESSES } from "./webhook-bench-world.ts";

const FAN_OUT = { clinics: 40, endpoints: 5, events: 4_000 };
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

const append = (world: BenchWorld, clinics: readonly string[], events: number) =>
  runConcurrently(THROUGHPUT.appenders, events, async (n) => {
    await world.appendAppointment(clinics[n % clinics.length] ?? "");
  });

/** Appends events while the service runs. @returns deliveries per second */
async function measureThroughput(
  world: BenchWorld,
  clinics: readonly string[],
  events: number,
  endpoints = 1,
): Promise<number> {
  world.clearReceipts();
  const began = now();
  const deliveries = events * endpoints;
  const use = await world.measureUse(async () => {
    await append(world, clinics, events);
    await world.awaitDeliveries(deliveries, 120_000);
  });
  const rate = deliveries / ((now() - began) / 1_000);
  const perDelivery = (ms: number | undefined) => `${(((ms ?? 0) * 1_000) / deliveries).toFixed(0)} µs`;
  row("CPU per delivery: Postgres", perDelivery(use.cpuMs), "");
  for (const [index, roles] of SERVICE_PROCESSES.entries()) {
    row(`CPU per delivery: ${roles}`, perDelivery(use.processesMs[index]), "");
  }
  row("WAL per delivery", `${(use.walBytes / deliveries).toFixed(0)} bytes`, "");
  return rate;
}

/** Measures events that match several endpoints each. */
async function measureFanOut(world: BenchWorld): Promise<void> {
  const { clinics: count, endpoints, events } = FAN_OUT;
  const clinics = await Promise.all(
    Array.from({ length: count }, () => world.registerEndpoints(world.sinkUrl, endpoints)),
  );
  const what = `deliveries, ${endpoints} endpoints for each event`;
  await compareWithLimit(
    world,
    what,
    "",
    (_, __, n) => measureThroughput(world, clinics, n, endpoints),
    clinics,
    events,
  );
}

/** Appends events, and then starts the service. @returns deliveries per second */
async function measureBacklog(world: BenchWorld, clinics: readonly string[], events: number): Promise<number> {
  world.clearReceipts();
  await append(world, clinics, events);
  await world.startService();
  await world.awaitReceipts(events, 120_000);
  const receipts = [...world.receipts.values()];
  return events / ((Math.max(...receipts) - Math.min(...receipts)) / 1_000);
}

/** Prints a rate and its ratio to the limit. Measures the limit before and after, because a machine's speed varies. */
async function compareWithLimit(
  world: BenchWorld,
  what: string,
  goal: string,
  measure: (world: BenchWorld, clinics: readonly string[], events: number) => Promise<number>,
  clinics: readonly string[],
  events = THROUGHPUT.events,
): Promise<void> {
  const before = await measureSignedPosts(world.sinkUrl, THROUGHPUT.posts);
  const rate = await measure(world, clinics, events);
  const after = await measureSignedPosts(world.sinkUrl, THROUGHPUT.posts);
  const share = rate / ((before + after) / 2);
  row("only signed posts to the sink", `${before.toFixed(0)}/s, then ${after.toFixed(0)}/s`, "");
  row(what, `${rate.toFixed(0)}/s, ${share.toFixed(2)} of it`, goal);
  const repeated = [...world.requestCounts.values()].reduce((sum, requests) => sum + requests - 1, 0);
  const { valid, invalid } = world.signatures;
  row("repeated requests", String(repeated), "0");
  row("invalid signatures", `${invalid} of ${valid + invalid} verified`, "0");
}

async function measureMemory(world: BenchWorld): Promise<void> {
  const { endpoints, deliveries, seconds } = MEMORY;
  await world.stopService();
  await world.insertDueDeliveries(`${world.sinkUrl}/`, {
    applications: endpoints,
    endpointsEach: 1,
    deliveries,
  });
  await world.startService();
  const before = await world.countAttempts();
  await sleep(seconds * 1_000);
  const rate = ((await world.countAttempts()) - before) / seconds;
  row(`${deliveries} deliveries due: peak memory`, `${world.readPeakMemory().toFixed(0)} MiB`, "");
  row(`${deliveries} deliveries due: sent`, `${rate.toFixed(0)}/s`, "");
}

/** Appends events at a steady rate without waiting for their webhooks. @returns the events' ids */
async function appendSteadily(
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
    appends.push(world.appendAppointment(clinics[n % clinics.length] ?? ""));
  }
  return Promise.all(appends);
}

function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))] ?? Number.NaN;
}

async function measureLatency(world: BenchWorld, clinics: readonly string[], perSecond: number, seconds: number) {
  world.clearReceipts();
  const ids = await appendSteadily(world, clinics, perSecond, seconds);
  await world.awaitReceipts(ids.length, 30_000);
  const waits = world.listWaits(ids);
  return [50, 95, 99].map((percent) => percentile(waits, percent)) as [number, number, number];
}

/** Returns a port on which no server listens. */
async function findUnusedPort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function measureIsolation(world: BenchWorld): Promise<void> {
  const { endpoints, perSecond, badPerSecond, seconds } = ISOLATION;
  const clinicsAt = (url: string, count: number) =>
    Promise.all(Array.from({ length: count }, () => world.registerEndpoint(url)));
  const good = await clinicsAt(world.sinkUrl, endpoints);
  const badUrls = [
    ...["/black-hole", "/drip", "/error"].map((path) => `${world.sinkUrl}${path}`),
    `http://127.0.0.1:${await findUnusedPort()}/`,
  ];
  const bad = (await Promise.all(badUrls.map((url) => clinicsAt(url, 1)))).flat();
  await measureLatency(world, good, perSecond, 3);
  const alone = await measureLatency(world, good, perSecond, seconds);
  // The healthy endpoints get the same number of events in both runs.
  const [beside] = await Promise.all([
    sleep(1_000).then(() => measureLatency(world, good, perSecond, seconds)),
    appendSteadily(world, bad, badPerSecond, seconds + 1),
  ]);
  row(`${endpoints} healthy endpoints alone, ${perSecond} events/s`, percentiles(alone), "");
  row(`with 4 failing endpoints at ${badPerSecond} events/s`, percentiles(beside), "");
  row("ratio of both p99", (beside[2] / alone[2]).toFixed(2), "at most 2");
}

async function measureFairness(world: BenchWorld): Promise<void> {
  const { endpoints, perSecond, seconds, applications, endpointsEach, dueEach } = FAIRNESS;
  const good = await Promise.all(Array.from({ length: endpoints }, () => world.registerEndpoint(world.sinkUrl)));
  const measure = () => measureLatency(world, good, perSecond, seconds);
  await measureLatency(world, good, perSecond, 3);
  // The healthy endpoints are measured alone before and after, because a machine's speed varies.
  let before = await measure();
  row(`${endpoints} healthy endpoints alone, ${perSecond} events/s`, percentiles(before), "");
  const bad = [
    { path: "/black-hole", what: "never respond" },
    { path: "/slow", what: "respond after 9 s" },
  ];
  for (const { path, what } of bad) {
    const deliveries = applications * endpointsEach * dueEach;
    await world.insertDueDeliveries(`${world.otherSinkUrl}${path}`, {
      applications,
      endpointsEach,
      deliveries,
    });
    await sleep(2_000);
    const beside = await measure();
    const held = world.readPeakMemory();
    await world.cancelDueDeliveries();
    const after = await measure();
    row(`with ${applications} applications that ${what}`, percentiles(beside), "");
    row("healthy endpoints alone again", percentiles(after), "");
    row("ratio of p99 with them to p99 alone", ((2 * beside[2]) / (before[2] + after[2])).toFixed(2), "at most 2");
    row("peak memory of a process", `${held.toFixed(0)} MiB`, "");
    before = after;
  }
}

const onlyThroughput = process.argv[2] === "throughput";
const say = (line: string) => console.log(line);
const row = (what: string, measured: string, goal: string) =>
  say(`${what.padEnd(46)} ${measured.padEnd(26)} ${goal}`.trimEnd());
const percentiles = (values: readonly number[]) => `${values.map((value) => value.toFixed(0)).join(" / ")} ms`;

say(
  `machine: ${os.availableParallelism()} × ${os.cpus()[0]?.model.trim()}, ${Math.round(os.totalmem() / 2 ** 30)} GiB, Node ${process.version}, load ${os.loadavg()[0]?.toFixed(1)}`,
);
say(`configuration: ${JSON.stringify({ SERVICE_PROCESSES, THROUGHPUT, LATENCY, ISOLATION, FAIRNESS, MEMORY })}`);
const world = await createBenchWorld();
try {
  const clinics = await Promise.all(
    Array.from({ length: THROUGHPUT.endpoints }, () => world.registerEndpoint(world.sinkUrl)),
  );
  row("measured", "", "goal");
  await world.startService();
  await measureThroughput(world, clinics, WARM_UP);
  if (!onlyThroughput) {
    const some = clinics.slice(0, LATENCY.endpoints);
    const waits = await measureLatency(world, some, LATENCY.perSecond, LATENCY.seconds);
    row(`${LATENCY.perSecond} events/s: p50 / p95 / p99`, percentiles(waits), "p95 below 130 ms");
    await measureIsolation(world);
    await measureFairness(world);
  }
  await world.stopService();
  await measureSignedPosts(world.sinkUrl, WARM_UP);
  await compareWithLimit(world, "deliveries of earlier events", "0.25", measureBacklog, clinics);
  await compareWithLimit(world, "deliveries during appends", "", measureThroughput, clinics);
  await measureFanOut(world);
  if (!onlyThroughput) await measureMemory(world);
} finally {
  await world.stop();
  await mochaGlobalTeardown();
}
