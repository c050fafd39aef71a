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
const WARM_UP_EVENTS = 2_000;

const appendEvents = (world: BenchWorld, clinics: readonly string[], events: number) =>
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
  const startedAt = now();
  const deliveries = events * endpoints;
  const serviceUse = await world.measureUse(async () => {
    await appendEvents(world, clinics, events);
    await world.awaitDeliveries(deliveries, 120_000);
  });
  const rate = deliveries / ((now() - startedAt) / 1_000);
  const formatPerDelivery = (ms: number | undefined) => `${(((ms ?? 0) * 1_000) / deliveries).toFixed(0)} µs`;
  printRow("CPU per delivery: Postgres", formatPerDelivery(serviceUse.cpuMs), "");
  for (const [index, roles] of SERVICE_PROCESSES.entries()) {
    printRow(`CPU per delivery: ${roles}`, formatPerDelivery(serviceUse.processesMs[index]), "");
  }
  printRow("WAL per delivery", `${(serviceUse.walBytes / deliveries).toFixed(0)} bytes`, "");
  return rate;
}

/** Measures events that match several endpoints each. */
async function measureFanOut(world: BenchWorld): Promise<void> {
  const { clinics: count, endpoints, events } = FAN_OUT;
  const clinics = await Promise.all(
    Array.from({ length: count }, () => world.registerEndpoints(world.sinkUrl, endpoints)),
  );
  const label = `deliveries, ${endpoints} endpoints for each event`;
  await compareWithLimit(
    world,
    label,
    "",
    (_, __, n) => measureThroughput(world, clinics, n, endpoints),
    clinics,
    events,
  );
}

/** Appends events, and then starts the service. @returns deliveries per second */
async function measureBacklog(world: BenchWorld, clinics: readonly string[], events: number): Promise<number> {
  world.clearReceipts();
  await appendEvents(world, clinics, events);
  await world.startService();
  await world.awaitReceipts(events, 120_000);
  const receiptTimes = [...world.receiptTimes.values()];
  return events / ((Math.max(...receiptTimes) - Math.min(...receiptTimes)) / 1_000);
}

/** Prints a rate and its ratio to the limit. Measures the limit before and after, because a machine's speed varies. */
async function compareWithLimit(
  world: BenchWorld,
  label: string,
  goal: string,
  measure: (world: BenchWorld, clinics: readonly string[], events: number) => Promise<number>,
  clinics: readonly string[],
  events = THROUGHPUT.events,
): Promise<void> {
  const limitBefore = await measureSignedPosts(world.sinkUrl, THROUGHPUT.posts);
  const rate = await measure(world, clinics, events);
  const limitAfter = await measureSignedPosts(world.sinkUrl, THROUGHPUT.posts);
  const ratio = rate / ((limitBefore + limitAfter) / 2);
  printRow("only signed posts to the sink", `${limitBefore.toFixed(0)}/s, then ${limitAfter.toFixed(0)}/s`, "");
  printRow(label, `${rate.toFixed(0)}/s, ${ratio.toFixed(2)} of it`, goal);
  const repeatedCount = [...world.requestCounts.values()].reduce((sum, requests) => sum + requests - 1, 0);
  const { valid, invalid } = world.signatures;
  printRow("repeated requests", String(repeatedCount), "0");
  printRow("invalid signatures", `${invalid} of ${valid + invalid} verified`, "0");
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
  const attemptsBefore = await world.countAttempts();
  await sleep(seconds * 1_000);
  const rate = ((await world.countAttempts()) - attemptsBefore) / seconds;
  printRow(`${deliveries} deliveries due: peak memory`, `${world.readPeakMemory().toFixed(0)} MiB`, "");
  printRow(`${deliveries} deliveries due: sent`, `${rate.toFixed(0)}/s`, "");
}

/** Appends events at a steady rate without waiting for their webhooks. @returns the events' ids */
async function appendSteadily(
  world: BenchWorld,
  clinics: readonly string[],
  perSecond: number,
  seconds: number,
): Promise<string[]> {
  const appends: Promise<string>[] = [];
  const startedAt = now();
  for (let n = 0; n < perSecond * seconds; n += 1) {
    const waitMs = startedAt + (n * 1_000) / perSecond - now();
    if (waitMs > 1) await sleep(waitMs);
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
  const registerClinics = (url: string, count: number) =>
    Promise.all(Array.from({ length: count }, () => world.registerEndpoint(url)));
  const healthyClinics = await registerClinics(world.sinkUrl, endpoints);
  const failingUrls = [
    ...["/black-hole", "/drip", "/error"].map((path) => `${world.sinkUrl}${path}`),
    `http://127.0.0.1:${await findUnusedPort()}/`,
  ];
  const failingClinics = (await Promise.all(failingUrls.map((url) => registerClinics(url, 1)))).flat();
  await measureLatency(world, healthyClinics, perSecond, 3);
  const waitsAlone = await measureLatency(world, healthyClinics, perSecond, seconds);
  // The healthy endpoints get the same number of events in both runs.
  const [waitsBeside] = await Promise.all([
    sleep(1_000).then(() => measureLatency(world, healthyClinics, perSecond, seconds)),
    appendSteadily(world, failingClinics, badPerSecond, seconds + 1),
  ]);
  printRow(`${endpoints} healthy endpoints alone, ${perSecond} events/s`, formatPercentiles(waitsAlone), "");
  printRow(`with 4 failing endpoints at ${badPerSecond} events/s`, formatPercentiles(waitsBeside), "");
  printRow("ratio of both p99", (waitsBeside[2] / waitsAlone[2]).toFixed(2), "at most 2");
}

async function measureFairness(world: BenchWorld): Promise<void> {
  const { endpoints, perSecond, seconds, applications, endpointsEach, dueEach } = FAIRNESS;
  const clinics = await Promise.all(Array.from({ length: endpoints }, () => world.registerEndpoint(world.sinkUrl)));
  const measure = () => measureLatency(world, clinics, perSecond, seconds);
  await measureLatency(world, clinics, perSecond, 3);
  // The healthy endpoints are measured alone before and after, because a machine's speed varies.
  let waitsBefore = await measure();
  printRow(`${endpoints} healthy endpoints alone, ${perSecond} events/s`, formatPercentiles(waitsBefore), "");
  const failingReceivers = [
    { path: "/black-hole", behavior: "never respond" },
    { path: "/slow", behavior: "respond after 9 s" },
  ];
  for (const { path, behavior } of failingReceivers) {
    const deliveries = applications * endpointsEach * dueEach;
    await world.insertDueDeliveries(`${world.otherSinkUrl}${path}`, {
      applications,
      endpointsEach,
      deliveries,
    });
    await sleep(2_000);
    const waitsBeside = await measure();
    const peakMib = world.readPeakMemory();
    await world.cancelDueDeliveries();
    const waitsAfter = await measure();
    printRow(`with ${applications} applications that ${behavior}`, formatPercentiles(waitsBeside), "");
    printRow("healthy endpoints alone again", formatPercentiles(waitsAfter), "");
    printRow("ratio of both p99", ((2 * waitsBeside[2]) / (waitsBefore[2] + waitsAfter[2])).toFixed(2), "at most 2");
    printRow("peak memory of a process", `${peakMib.toFixed(0)} MiB`, "");
    waitsBefore = waitsAfter;
  }
}

const onlyThroughput = process.argv[2] === "throughput";
const printLine = (line: string) => console.log(line);
const printRow = (label: string, measuredText: string, goal: string) =>
  printLine(`${label.padEnd(46)} ${measuredText.padEnd(26)} ${goal}`.trimEnd());
const formatPercentiles = (values: readonly number[]) => `${values.map((value) => value.toFixed(0)).join(" / ")} ms`;

printLine(
  `machine: ${os.availableParallelism()} × ${os.cpus()[0]?.model.trim()}, ${Math.round(os.totalmem() / 2 ** 30)} GiB, Node ${process.version}, load ${os.loadavg()[0]?.toFixed(1)}`,
);
printLine(`configuration: ${JSON.stringify({ SERVICE_PROCESSES, THROUGHPUT, LATENCY, ISOLATION, FAIRNESS, MEMORY })}`);
const world = await createBenchWorld();
try {
  const clinics = await Promise.all(
    Array.from({ length: THROUGHPUT.endpoints }, () => world.registerEndpoint(world.sinkUrl)),
  );
  printRow("measured", "", "goal");
  await world.startService();
  await measureThroughput(world, clinics, WARM_UP_EVENTS);
  if (!onlyThroughput) {
    const latencyClinics = clinics.slice(0, LATENCY.endpoints);
    const waits = await measureLatency(world, latencyClinics, LATENCY.perSecond, LATENCY.seconds);
    printRow(`${LATENCY.perSecond} events/s: p50 / p95 / p99`, formatPercentiles(waits), "p95 below 130 ms");
    await measureIsolation(world);
    await measureFairness(world);
  }
  await world.stopService();
  await measureSignedPosts(world.sinkUrl, WARM_UP_EVENTS);
  await compareWithLimit(world, "deliveries of earlier events", "0.25", measureBacklog, clinics);
  await compareWithLimit(world, "deliveries during appends", "", measureThroughput, clinics);
  await measureFanOut(world);
  if (!onlyThroughput) await measureMemory(world);
} finally {
  await world.stop();
  await mochaGlobalTeardown();
}
