/**
 * Measures the path from an event to a webhook.
 *
 * - steady: Time from append to receipt at 50 events per second, and the CPU time of all processes for each delivery.
 * - one and ten endpoints: Deliveries per second while events of one clinic are appended, to receivers that respond at
 *   once and to receivers that take 50 ms.
 * - newcomers: Time from append to receipt for the first event of 40 applications, while one endpoint uses all its slots.
 * - idle: CPU time of each process in a second without events.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { mochaGlobalTeardown } from "../support/stack.ts";
import { readCpuSeconds } from "./load.ts";
import { printRow } from "./report.ts";
import { runConcurrently } from "./signed-posts.ts";
import { type BenchWorld, createBenchWorld, now } from "./webhook-bench-world.ts";

const STEADY = { perSecond: 50, seconds: 20 };
const IDLE_SECONDS = 20;
const APPENDER_COUNT = 16;
const WARM_UP_EVENT_COUNT = 1_000;
const NEWCOMER_COUNT = 40;
const EAGER_EVENT_COUNT = 4_000;

async function measureSteadily(world: BenchWorld, clinicId: string): Promise<void> {
  const { perSecond, seconds } = STEADY;
  world.clearReceipts();
  const appendPromises: Promise<string>[] = [];
  const cpuMicros = await measureCpu(world, perSecond * seconds, async () => {
    const startedAt = now();
    for (let n = 0; n < perSecond * seconds; n += 1) {
      const waitMs = startedAt + (n * 1_000) / perSecond - now();
      if (waitMs > 1) await sleep(waitMs);
      appendPromises.push(world.appendAppointment(clinicId));
    }
    await world.awaitReceipts(perSecond * seconds, 30_000);
  });
  const waitTimes = world.listWaitTimes(await Promise.all(appendPromises)).sort((a, b) => a - b);
  const findPercentile = (share: number) => waitTimes[Math.floor(waitTimes.length * share)] ?? Number.NaN;
  const name = `append to receipt, ${perSecond} events/s`;
  printRow({ name, p50: findPercentile(0.5), p99: findPercentile(0.99), cpuMicros });
}

async function measureCpu(world: BenchWorld, count: number, runWorkload: () => Promise<unknown>) {
  const pids = world.listPids();
  const before = readCpuSeconds(pids);
  await runWorkload();
  const entries = Object.entries(readCpuSeconds(pids));
  return Object.fromEntries(entries.map(([name, seconds]) => [name, ((seconds - (before[name] ?? 0)) / count) * 1e6]));
}

async function measureRate(world: BenchWorld, path: string, endpointCount: number, eventCount: number): Promise<void> {
  const clinicId = await world.registerEndpoints(`${world.sinkUrl}${path}`, endpointCount);
  const deliver = async (count: number) => {
    world.clearReceipts();
    await runConcurrently(APPENDER_COUNT, count, async () => void (await world.appendAppointment(clinicId)));
    await world.awaitDeliveries(count * endpointCount, 120_000);
  };
  await deliver(eventCount / 10);
  const startedAt = now();
  const deliveryCount = eventCount * endpointCount;
  const cpuMicros = await measureCpu(world, deliveryCount, () => deliver(eventCount));
  const receiverText = path === "/" ? "" : ", receiver takes 50 ms";
  const name = `${endpointCount} ${endpointCount === 1 ? "endpoint" : "endpoints"}${receiverText}`;
  printRow({ name, rate: deliveryCount / ((now() - startedAt) / 1_000), cpuMicros });
}

async function measureNewcomers(world: BenchWorld): Promise<void> {
  const registerPromises = Array.from({ length: NEWCOMER_COUNT }, () => world.registerEndpoint(world.sinkUrl));
  const clinicIds = await Promise.all(registerPromises);
  const eagerClinicId = await world.registerEndpoints(`${world.sinkUrl}/delayed`, 1);
  world.clearReceipts();
  await runConcurrently(
    APPENDER_COUNT,
    EAGER_EVENT_COUNT,
    async () => void (await world.appendAppointment(eagerClinicId)),
  );
  await world.awaitReceipts(EAGER_EVENT_COUNT / 2, 60_000);
  const ids = await Promise.all(clinicIds.map((clinicId) => world.appendAppointment(clinicId)));
  await world.awaitReceipts(EAGER_EVENT_COUNT + NEWCOMER_COUNT, 60_000);
  const waitTimes = world.listWaitTimes(ids).sort((a, b) => a - b);
  const name = `first events of ${NEWCOMER_COUNT} applications`;
  printRow({
    name,
    p50: waitTimes[NEWCOMER_COUNT / 2] ?? Number.NaN,
    p99: waitTimes.at(-1) ?? Number.NaN,
    note: "beside a busy endpoint",
  });
}

const world = await createBenchWorld();
try {
  const clinicId = await world.registerEndpoint(world.sinkUrl);
  await world.startService();
  await runConcurrently(
    APPENDER_COUNT,
    WARM_UP_EVENT_COUNT,
    async () => void (await world.appendAppointment(clinicId)),
  );
  await sleep(4_000);
  await measureSteadily(world, clinicId);
  await measureRate(world, "/", 1, 10_000);
  await measureRate(world, "/delayed", 1, 5_000);
  await measureRate(world, "/", 10, 5_000);
  await measureRate(world, "/delayed", 10, 2_000);
  await measureNewcomers(world);
  await sleep(2_000);
  const cpuMicros = await measureCpu(world, IDLE_SECONDS, () => sleep(IDLE_SECONDS * 1_000));
  printRow({ name: "idle, for each second", cpuMicros });
} finally {
  await world.stop();
  await mochaGlobalTeardown();
}
