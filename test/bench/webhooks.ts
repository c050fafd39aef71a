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
const WARM_UP_EVENT_COUNT = 2_000;

const appendEvents = (world: BenchWorld, clinicIds: readonly string[], eventCount: number) =>
  runConcurrently(THROUGHPUT.appenders, eventCount, async (n) => {
    await world.appendAppointment(clinicIds[n % clinicIds.length] ?? "");
  });

/** Appends events while the service runs. @returns deliveries per second */
async function measureThroughput(
  world: BenchWorld,
  clinicIds: readonly string[],
  eventCount: number,
  endpointCount = 1,
): Promise<number> {
  world.clearReceipts();
  const startedAt = now();
  const deliveryCount = eventCount * endpointCount;
  const serviceUse = await world.measureUse(async () => {
    await appendEvents(world, clinicIds, eventCount);
    await world.awaitDeliveries(deliveryCount, 120_000);
  });
  const rate = deliveryCount / ((now() - startedAt) / 1_000);
  const formatPerDelivery = (ms: number | undefined) => `${(((ms ?? 0) * 1_000) / deliveryCount).toFixed(0)} µs`;
  printRow("CPU per delivery: Postgres", formatPerDelivery(serviceUse.cpuMs), "");
  for (const [index, roles] of SERVICE_PROCESSES.entries()) {
    printRow(`CPU per delivery: ${roles}`, formatPerDelivery(serviceUse.processCpuMs[index]), "");
  }
  printRow("WAL per delivery", `${(serviceUse.walBytes / deliveryCount).toFixed(0)} bytes`, "");
  return rate;
}

/** Measures events that match several endpoints each. */
async function measureFanOut(world: BenchWorld): Promise<void> {
  const { clinics: count, endpoints: endpointCount, events: eventCount } = FAN_OUT;
  const clinicIds = await Promise.all(
    Array.from({ length: count }, () => world.registerEndpoints(world.sinkUrl, endpointCount)),
  );
  const label = `deliveries, ${endpointCount} endpoints for each event`;
  await compareWithLimit(
    world,
    label,
    "",
    (_, __, n) => measureThroughput(world, clinicIds, n, endpointCount),
    clinicIds,
    eventCount,
  );
}

/** Appends events, and then starts the service. @returns deliveries per second */
async function measureBacklog(world: BenchWorld, clinicIds: readonly string[], eventCount: number): Promise<number> {
  world.clearReceipts();
  await appendEvents(world, clinicIds, eventCount);
  await world.startService();
  await world.awaitReceipts(eventCount, 120_000);
  const receiptTimes = [...world.receiptTimes.values()];
  return eventCount / ((Math.max(...receiptTimes) - Math.min(...receiptTimes)) / 1_000);
}

/** Prints a rate and its ratio to the limit. Measures the limit before and after, because a machine's speed varies. */
async function compareWithLimit(
  world: BenchWorld,
  label: string,
  goal: string,
  measure: (world: BenchWorld, clinicIds: readonly string[], eventCount: number) => Promise<number>,
  clinicIds: readonly string[],
  eventCount = THROUGHPUT.events,
): Promise<void> {
  const limitBefore = await measureSignedPosts(world.sinkUrl, THROUGHPUT.posts);
  const rate = await measure(world, clinicIds, eventCount);
  const limitAfter = await measureSignedPosts(world.sinkUrl, THROUGHPUT.posts);
  const ratio = rate / ((limitBefore + limitAfter) / 2);
  printRow("only signed posts to the sink", `${limitBefore.toFixed(0)}/s, then ${limitAfter.toFixed(0)}/s`, "");
  printRow(label, `${rate.toFixed(0)}/s, ${ratio.toFixed(2)} of it`, goal);
  const repeatedCount = [...world.requestCounts.values()].reduce((sum, requestCount) => sum + requestCount - 1, 0);
  const { valid, invalid } = world.signatureCounts;
  printRow("repeated requests", String(repeatedCount), "0");
  printRow("invalid signatures", `${invalid} of ${valid + invalid} verified`, "0");
}

async function measureMemory(world: BenchWorld): Promise<void> {
  const { endpoints: endpointCount, deliveries: deliveryCount, seconds } = MEMORY;
  await world.stopService();
  await world.insertDueDeliveries(`${world.sinkUrl}/`, {
    applicationCount: endpointCount,
    endpointsPerApplication: 1,
    deliveryCount,
  });
  await world.startService();
  const attemptCountBefore = await world.countAttempts();
  await sleep(seconds * 1_000);
  const rate = ((await world.countAttempts()) - attemptCountBefore) / seconds;
  printRow(`${deliveryCount} deliveries due: peak memory`, `${world.readPeakMemoryMib().toFixed(0)} MiB`, "");
  printRow(`${deliveryCount} deliveries due: sent`, `${rate.toFixed(0)}/s`, "");
}

/** Appends events at a steady rate without waiting for their webhooks. @returns the events' ids */
async function appendSteadily(
  world: BenchWorld,
  clinicIds: readonly string[],
  eventsPerSecond: number,
  seconds: number,
): Promise<string[]> {
  const appendPromises: Promise<string>[] = [];
  const startedAt = now();
  for (let n = 0; n < eventsPerSecond * seconds; n += 1) {
    const waitMs = startedAt + (n * 1_000) / eventsPerSecond - now();
    if (waitMs > 1) await sleep(waitMs);
    appendPromises.push(world.appendAppointment(clinicIds[n % clinicIds.length] ?? ""));
  }
  return Promise.all(appendPromises);
}

function findPercentile(values: readonly number[], percent: number): number {
  const sortedValues = values.toSorted((a, b) => a - b);
  return (
    sortedValues[Math.min(sortedValues.length - 1, Math.floor((sortedValues.length * percent) / 100))] ?? Number.NaN
  );
}

async function measureLatency(
  world: BenchWorld,
  clinicIds: readonly string[],
  eventsPerSecond: number,
  seconds: number,
) {
  world.clearReceipts();
  const ids = await appendSteadily(world, clinicIds, eventsPerSecond, seconds);
  await world.awaitReceipts(ids.length, 30_000);
  const waitTimes = world.listWaitTimes(ids);
  return [50, 95, 99].map((percent) => findPercentile(waitTimes, percent)) as [number, number, number];
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
  const {
    endpoints: endpointCount,
    perSecond: eventsPerSecond,
    badPerSecond: failingEventsPerSecond,
    seconds,
  } = ISOLATION;
  const registerClinics = (url: string, count: number) =>
    Promise.all(Array.from({ length: count }, () => world.registerEndpoint(url)));
  const healthyClinicIds = await registerClinics(world.sinkUrl, endpointCount);
  const failingUrls = [
    ...["/black-hole", "/drip", "/error"].map((path) => `${world.sinkUrl}${path}`),
    `http://127.0.0.1:${await findUnusedPort()}/`,
  ];
  const failingClinicIds = (await Promise.all(failingUrls.map((url) => registerClinics(url, 1)))).flat();
  await measureLatency(world, healthyClinicIds, eventsPerSecond, 3);
  const waitTimesAlone = await measureLatency(world, healthyClinicIds, eventsPerSecond, seconds);
  // The healthy endpoints get the same number of events in both runs.
  const [waitTimesUnderLoad] = await Promise.all([
    sleep(1_000).then(() => measureLatency(world, healthyClinicIds, eventsPerSecond, seconds)),
    appendSteadily(world, failingClinicIds, failingEventsPerSecond, seconds + 1),
  ]);
  printRow(
    `${endpointCount} healthy endpoints alone, ${eventsPerSecond} events/s`,
    formatPercentiles(waitTimesAlone),
    "",
  );
  printRow(`with 4 failing endpoints at ${failingEventsPerSecond} events/s`, formatPercentiles(waitTimesUnderLoad), "");
  printRow("ratio of both p99", (waitTimesUnderLoad[2] / waitTimesAlone[2]).toFixed(2), "at most 2");
}

async function measureFairness(world: BenchWorld): Promise<void> {
  const {
    endpoints: endpointCount,
    perSecond: eventsPerSecond,
    seconds,
    applications: applicationCount,
    endpointsEach: endpointsPerApplication,
    dueEach: deliveriesPerEndpoint,
  } = FAIRNESS;
  const clinicIds = await Promise.all(
    Array.from({ length: endpointCount }, () => world.registerEndpoint(world.sinkUrl)),
  );
  const measure = () => measureLatency(world, clinicIds, eventsPerSecond, seconds);
  await measureLatency(world, clinicIds, eventsPerSecond, 3);
  // The healthy endpoints are measured alone before and after, because a machine's speed varies.
  let waitTimesBefore = await measure();
  printRow(
    `${endpointCount} healthy endpoints alone, ${eventsPerSecond} events/s`,
    formatPercentiles(waitTimesBefore),
    "",
  );
  const failingReceivers = [
    { path: "/black-hole", behavior: "never respond" },
    { path: "/slow", behavior: "respond after 9 s" },
  ];
  for (const { path, behavior } of failingReceivers) {
    const deliveryCount = applicationCount * endpointsPerApplication * deliveriesPerEndpoint;
    await world.insertDueDeliveries(`${world.otherSinkUrl}${path}`, {
      applicationCount,
      endpointsPerApplication,
      deliveryCount,
    });
    await sleep(2_000);
    const waitTimesUnderLoad = await measure();
    const peakMib = world.readPeakMemoryMib();
    await world.cancelDueDeliveries();
    const waitTimesAfter = await measure();
    printRow(`with ${applicationCount} applications that ${behavior}`, formatPercentiles(waitTimesUnderLoad), "");
    printRow("healthy endpoints alone again", formatPercentiles(waitTimesAfter), "");
    printRow(
      "ratio of both p99",
      ((2 * waitTimesUnderLoad[2]) / (waitTimesBefore[2] + waitTimesAfter[2])).toFixed(2),
      "at most 2",
    );
    printRow("peak memory of a process", `${peakMib.toFixed(0)} MiB`, "");
    waitTimesBefore = waitTimesAfter;
  }
}

const isThroughputOnly = process.argv[2] === "throughput";
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
  const clinicIds = await Promise.all(
    Array.from({ length: THROUGHPUT.endpoints }, () => world.registerEndpoint(world.sinkUrl)),
  );
  printRow("measured", "", "goal");
  await world.startService();
  await measureThroughput(world, clinicIds, WARM_UP_EVENT_COUNT);
  if (!isThroughputOnly) {
    const latencyClinicIds = clinicIds.slice(0, LATENCY.endpoints);
    const waitTimes = await measureLatency(world, latencyClinicIds, LATENCY.perSecond, LATENCY.seconds);
    printRow(`${LATENCY.perSecond} events/s: p50 / p95 / p99`, formatPercentiles(waitTimes), "p95 below 130 ms");
    await measureIsolation(world);
    await measureFairness(world);
  }
  await world.stopService();
  await measureSignedPosts(world.sinkUrl, WARM_UP_EVENT_COUNT);
  await compareWithLimit(world, "deliveries of earlier events", "0.25", measureBacklog, clinicIds);
  await compareWithLimit(world, "deliveries during appends", "", measureThroughput, clinicIds);
  await measureFanOut(world);
  if (!isThroughputOnly) await measureMemory(world);
} finally {
  await world.stop();
  await mochaGlobalTeardown();
}
