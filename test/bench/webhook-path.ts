/**
 * Measures the path from an event to its webhook.
 *
 * - steady: Time from append to receipt at 50 events per second, and the CPU time of all processes for each delivery.
 * - one and ten endpoints: Deliveries per second of one clinic's events. The receivers respond at once or after 50 ms.
 * - newcomers: Time from append to receipt for the first events of 40 new applications, while another endpoint is busy.
 * - idle: CPU time of each process per second without events.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { mochaGlobalTeardown } from "../support/stack.ts";
import { findQuantiles, measureWork } from "./load.ts";
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
  const { cpuMicros } = await measureWork(world.listPids(), async () => {
    const startedAt = now();
    for (let n = 0; n < perSecond * seconds; n += 1) {
      const waitMs = startedAt + (n * 1_000) / perSecond - now();
      if (waitMs > 1) await sleep(waitMs);
      appendPromises.push(world.appendAppointment(clinicId));
    }
    await world.awaitReceipts(perSecond * seconds, 30_000);
    return perSecond * seconds;
  });
  const waitTimes = world.listWaitTimes(await Promise.all(appendPromises));
  printRow({ name: `append to receipt, ${perSecond} events/s`, ...findQuantiles(waitTimes), cpuMicros });
}

async function measureRate(world: BenchWorld, path: string, endpointCount: number, eventCount: number): Promise<void> {
  const clinicId = await world.registerEndpoints(`${world.sinkUrl}${path}`, endpointCount);
  const deliver = async (count: number) => {
    world.clearReceipts();
    await runConcurrently(APPENDER_COUNT, count, async () => void (await world.appendAppointment(clinicId)));
    await world.awaitDeliveries(count * endpointCount, 120_000);
  };
  await deliver(eventCount / 10);
  const use = await measureWork(world.listPids(), async () => {
    await deliver(eventCount);
    return eventCount * endpointCount;
  });
  const receiverText = path === "/" ? "" : ", receiver takes 50 ms";
  const name = `${endpointCount} ${endpointCount === 1 ? "endpoint" : "endpoints"}${receiverText}`;
  printRow({ name, ...use });
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
  const name = `first events of ${NEWCOMER_COUNT} applications`;
  printRow({ name, ...findQuantiles(world.listWaitTimes(ids)), note: "next to a busy endpoint" });
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
  const { cpuMicros } = await measureWork(world.listPids(), () => sleep(IDLE_SECONDS * 1_000, IDLE_SECONDS));
  printRow({ name: "idle, for each second", cpuMicros });
} finally {
  await world.stop();
  await mochaGlobalTeardown();
}
