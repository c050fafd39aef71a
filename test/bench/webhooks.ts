/**
 * Measures how fast webhooks are delivered, and how much failing receivers delay healthy receivers: `node --import tsx
 * test/bench/webhooks.ts`. With the argument `throughput`, measures only throughput and cost.
 *
 * - throughput: Deliveries per second, for events appended while the service runs and for events appended before its
 *   start. One measurement has five endpoints for each event. The upper limit is a client that signs and posts bodies
 *   to the same receiver without a queue. The numbers of repeated requests and of invalid signatures must be zero.
 * - order: Deliveries per second for appointments with several events that are appended at once. Compares endpoints
 *   without order and with the order of each appointment. For the latter, no event may arrive too early.
 * - cost: CPU time and WAL per delivery while events are appended.
 * - memory: Peak memory of the service while 100,000 deliveries are due, and deliveries per second.
 * - latency: Time from append to receipt at a steady rate.
 * - isolation: Latency of 100 healthy endpoints: alone, together with endpoints that fail in four ways, and together
 *   with a failing endpoint with many blocked deliveries.
 * - fairness: Latency of 100 healthy endpoints together with 20 applications with 50 endpoints each. These endpoints
 *   never respond in the first run, and respond after 9 seconds in the second run.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { findFreePort } from "../support/free-ports.ts";
import { mochaGlobalTeardown } from "../support/stack.ts";
import { findQuantiles, measureWork } from "./load.ts";
import { printRow } from "./report.ts";
import { measureSignedPosts, runConcurrently, THROUGHPUT } from "./signed-posts.ts";
import { type BenchWorld, createBenchWorld, now } from "./webhook-bench-world.ts";

const FAN_OUT = { clinics: 40, endpoints: 5, events: 4_000 };
const ORDER = { clinics: 40, eventsPerAppointment: 4, appointments: 2_000 };
const BLOCKED = { eventsPerAppointment: 5, appointments: 1_000 };
const LATENCY = { endpoints: 20, perSecond: 200, seconds: 10 };
const ISOLATION = { endpoints: 100, perSecond: 100, badPerSecond: 20, seconds: 15 };
const FAIRNESS = { endpoints: 100, perSecond: 100, seconds: 30, applications: 20, endpointsEach: 50, dueEach: 20 };
const MEMORY = { endpoints: 100, deliveries: 100_000, seconds: 20 };
const WARM_UP_EVENT_COUNT = 2_000;

interface Throughput {
  /** Deliveries per second. */
  rate: number;
  /** Microseconds of CPU time per delivery, by process. */
  cpuMicros?: Record<string, number>;
  /** Bytes of WAL per delivery. */
  walBytes?: number;
}

const appendEvents = (world: BenchWorld, clinicIds: readonly string[], eventCount: number) =>
  runConcurrently(THROUGHPUT.appenders, eventCount, async (n) => {
    await world.appendAppointment(clinicIds[n % clinicIds.length] ?? "");
  });

/** Measures deliveries while events are appended. */
async function measureThroughput(
  world: BenchWorld,
  clinicIds: readonly string[],
  eventCount: number,
  endpointCount = 1,
): Promise<Throughput> {
  world.clearReceipts();
  const deliveryCount = eventCount * endpointCount;
  let walBytes = 0;
  const work = await measureWork(world.listPids(), async () => {
    walBytes = await world.measureWal(async () => {
      await appendEvents(world, clinicIds, eventCount);
      await world.awaitDeliveries(deliveryCount, 120_000);
    });
    return deliveryCount;
  });
  return { ...work, walBytes: walBytes / deliveryCount };
}

/** Measures events that match several endpoints each. */
async function measureFanOut(world: BenchWorld): Promise<void> {
  const { clinics: count, endpoints: endpointCount, events: eventCount } = FAN_OUT;
  const clinicIds = await Promise.all(
    Array.from({ length: count }, () => world.registerEndpoints(world.sinkUrl, endpointCount)),
  );
  const label = `deliveries, ${endpointCount} endpoints for each event`;
  const measureFanOutThroughput = (_: BenchWorld, __: readonly string[], count: number) =>
    measureThroughput(world, clinicIds, count, endpointCount);
  await compareWithLimit(world, label, measureFanOutThroughput, clinicIds, eventCount);
}

/** Compares endpoints with and without order, for appointments with several events. */
async function measureOrder(world: BenchWorld): Promise<void> {
  const { clinics: count, eventsPerAppointment, appointments: appointmentCount } = ORDER;
  const eventCount = eventsPerAppointment * appointmentCount;
  for (const ordering of ["none", "appointment"] as const) {
    const options = { ordering, events: ["appointment.created" as const, "appointment.updated" as const] };
    const clinicIds = await Promise.all(
      Array.from({ length: count }, () => world.registerEndpoints(world.sinkUrl, 1, options)),
    );
    world.clearReceipts();
    const startedAt = now();
    const appointments = await appendAppointments(world, clinicIds, appointmentCount, eventsPerAppointment);
    await world.awaitReceipts(eventCount, 120_000);
    const earlyCount = appointments.flatMap((eventIds) => {
      const receiptTimes = eventIds.map((id) => world.receiptTimes.get(id) ?? 0);
      return receiptTimes.filter((time, n) => n > 0 && time < (receiptTimes[n - 1] ?? 0));
    }).length;
    const orderText = ordering === "none" ? "without order" : "in order";
    printRow({
      name: `${eventsPerAppointment} events of each appointment, ${orderText}`,
      rate: eventCount / ((now() - startedAt) / 1_000),
      note: `${earlyCount} of ${eventCount} events arrived before an earlier event`,
    });
  }
}

/** Appends several events of each appointment in one write. @returns the ids of each appointment's events, in order */
async function appendAppointments(
  world: BenchWorld,
  clinicIds: readonly string[],
  appointmentCount: number,
  eventsPerAppointment: number,
): Promise<string[][]> {
  const appointments: string[][] = [];
  await runConcurrently(THROUGHPUT.appenders, appointmentCount, async (n) => {
    const clinicId = clinicIds[n % clinicIds.length] ?? "";
    appointments.push(await world.appendAppointmentEvents(clinicId, eventsPerAppointment));
  });
  return appointments;
}

/** Measures deliveries of events that were appended before the start of the service. */
async function measureBacklog(
  world: BenchWorld,
  clinicIds: readonly string[],
  eventCount: number,
): Promise<Throughput> {
  world.clearReceipts();
  await appendEvents(world, clinicIds, eventCount);
  await world.startService();
  await world.awaitReceipts(eventCount, 120_000);
  const receiptTimes = [...world.receiptTimes.values()];
  return { rate: eventCount / ((Math.max(...receiptTimes) - Math.min(...receiptTimes)) / 1_000) };
}

/** Prints a rate and its upper limit. Measures the limit before and after, because a machine's speed varies. */
async function compareWithLimit(
  world: BenchWorld,
  name: string,
  measure: (world: BenchWorld, clinicIds: readonly string[], eventCount: number) => Promise<Throughput>,
  clinicIds: readonly string[],
  eventCount = THROUGHPUT.events,
): Promise<void> {
  const limitBefore = await measureSignedPosts(world.sinkUrl, THROUGHPUT.posts);
  const { rate, cpuMicros = {}, walBytes } = await measure(world, clinicIds, eventCount);
  const limitAfter = await measureSignedPosts(world.sinkUrl, THROUGHPUT.posts);
  const repeatedCount = [...world.requestCounts.values()].reduce((sum, requestCount) => sum + requestCount - 1, 0);
  const { valid, invalid } = world.signatureCounts;
  const notes = [
    ...(walBytes === undefined ? [] : [`WAL ${walBytes.toFixed(0)} bytes`]),
    `${repeatedCount} repeated requests, ${invalid} of ${valid + invalid} signatures invalid`,
  ];
  printRow({ name, rate, referenceRate: (limitBefore + limitAfter) / 2, cpuMicros, note: notes.join(", ") });
}

async function measureMemory(world: BenchWorld): Promise<void> {
  const { endpoints: endpointCount, deliveries: deliveryCount, seconds } = MEMORY;
  await world.stopService();
  await world.insertDueDeliveries(`${world.sinkUrl}/`, endpointCount, 1, deliveryCount);
  await world.startService();
  const attemptCountBefore = await world.countAttempts();
  await sleep(seconds * 1_000);
  const rate = ((await world.countAttempts()) - attemptCountBefore) / seconds;
  printRow({ name: `${deliveryCount} due deliveries`, rate, note: formatPeakMemory(world.readPeakMemoryMib()) });
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

async function measureLatency(
  world: BenchWorld,
  clinicIds: readonly string[],
  eventsPerSecond: number,
  seconds: number,
) {
  world.clearReceipts();
  const ids = await appendSteadily(world, clinicIds, eventsPerSecond, seconds);
  await world.awaitReceipts(ids.length, 30_000);
  return findQuantiles(world.listWaitTimes(ids));
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
    `http://127.0.0.1:${await findFreePort()}/`,
  ];
  const failingClinicIds = (await Promise.all(failingUrls.map((url) => registerClinics(url, 1)))).flat();
  await measureLatency(world, healthyClinicIds, eventsPerSecond, 3);
  const latencyAlone = await measureLatency(world, healthyClinicIds, eventsPerSecond, seconds);
  // The healthy endpoints get the same number of events in both runs.
  const [latencyUnderLoad] = await Promise.all([
    sleep(1_000).then(() => measureLatency(world, healthyClinicIds, eventsPerSecond, seconds)),
    appendSteadily(world, failingClinicIds, failingEventsPerSecond, seconds + 1),
  ]);
  printRow({ name: `${endpointCount} healthy endpoints, ${eventsPerSecond} events/s`, ...latencyAlone });
  printRow({
    name: `with 4 failing endpoints, ${failingEventsPerSecond} events/s`,
    ...latencyUnderLoad,
    note: formatLatencyRatio(latencyUnderLoad.p99, latencyAlone.p99),
  });
  const orderedClinicId = await world.registerEndpoints(`${world.otherSinkUrl}/error`, 1, {
    ordering: "appointment",
    events: ["appointment.created", "appointment.updated"],
  });
  await appendAppointments(world, [orderedClinicId], BLOCKED.appointments, BLOCKED.eventsPerAppointment);
  // Events are matched in order, so the next receipt shows that all blocked deliveries exist.
  world.clearReceipts();
  await world.appendAppointment(healthyClinicIds[0] ?? "");
  await world.awaitReceipts(1, 120_000);
  const latencyWithHeld = await measureLatency(world, healthyClinicIds, eventsPerSecond, seconds);
  printRow({
    name: `with ${BLOCKED.appointments * (BLOCKED.eventsPerAppointment - 1)} blocked deliveries of a failing endpoint`,
    ...latencyWithHeld,
    note: formatLatencyRatio(latencyWithHeld.p99, latencyAlone.p99),
  });
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
  const measureHealthyLatency = () => measureLatency(world, clinicIds, eventsPerSecond, seconds);
  await measureLatency(world, clinicIds, eventsPerSecond, 3);
  // The healthy endpoints are measured alone before and after, because a machine's speed varies.
  let latencyBefore = await measureHealthyLatency();
  printRow({ name: `${endpointCount} healthy endpoints, ${eventsPerSecond} events/s`, ...latencyBefore });
  const failingReceivers = [
    { path: "/black-hole", behavior: "never respond" },
    { path: "/slow", behavior: "respond after 9 s" },
  ];
  for (const { path, behavior } of failingReceivers) {
    const deliveryCount = applicationCount * endpointsPerApplication * deliveriesPerEndpoint;
    const url = `${world.otherSinkUrl}${path}`;
    await world.insertDueDeliveries(url, applicationCount, endpointsPerApplication, deliveryCount);
    await sleep(2_000);
    const latencyUnderLoad = await measureHealthyLatency();
    const peakMib = world.readPeakMemoryMib();
    await world.cancelDueDeliveries();
    const latencyAfter = await measureHealthyLatency();
    const ratioText = formatLatencyRatio(latencyUnderLoad.p99, (latencyBefore.p99 + latencyAfter.p99) / 2);
    printRow({
      name: `with ${applicationCount} applications that ${behavior}`,
      ...latencyUnderLoad,
      note: `${ratioText}, ${formatPeakMemory(peakMib)}`,
    });
    printRow({ name: "healthy endpoints again", ...latencyAfter, isDetail: true });
    latencyBefore = latencyAfter;
  }
}

const formatPeakMemory = (mib: number) => `peak memory of a process ${mib.toFixed(0)} MiB`;

const formatLatencyRatio = (p99: number, otherP99: number) => `${(p99 / otherP99).toFixed(2)} times the p99`;

const isThroughputOnly = process.argv[2] === "throughput";
const world = await createBenchWorld();
try {
  const clinicIds = await Promise.all(
    Array.from({ length: THROUGHPUT.endpoints }, () => world.registerEndpoint(world.sinkUrl)),
  );
  await world.startService();
  await measureThroughput(world, clinicIds, WARM_UP_EVENT_COUNT);
  if (!isThroughputOnly) {
    const latencyClinicIds = clinicIds.slice(0, LATENCY.endpoints);
    const latency = await measureLatency(world, latencyClinicIds, LATENCY.perSecond, LATENCY.seconds);
    printRow({ name: `append to receipt, ${LATENCY.perSecond} events/s`, ...latency });
    await measureIsolation(world);
    await measureFairness(world);
  }
  await world.stopService();
  await measureSignedPosts(world.sinkUrl, WARM_UP_EVENT_COUNT);
  await compareWithLimit(world, "deliveries of earlier events", measureBacklog, clinicIds);
  await compareWithLimit(world, "deliveries during appends", measureThroughput, clinicIds);
  await measureFanOut(world);
  await measureOrder(world);
  if (!isThroughputOnly) await measureMemory(world);
} finally {
  await world.stop();
  await mochaGlobalTeardown();
}
