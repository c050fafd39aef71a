/**
 * Measures what a user might choose instead of this service: how fast graphile-worker sends webhooks that already wait in
 * its queue. Its worker runs in its own process, like the sender of this service. The reference signs and posts webhooks
 * without a queue.
 *
 *     npm run bench -- alternatives
 */
import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { makeWorkerUtils, type WorkerUtils } from "graphile-worker";
import { eventually } from "../support/eventually.ts";
import { createTestDatabase, getTestServers, mochaGlobalTeardown } from "../support/stack.ts";
import type { WorkerOptions } from "./graphile-worker-process.ts";
import { readCpuSeconds } from "./load.ts";
import { printRow } from "./report.ts";
import { createWebhookBody, measureSignedPosts, THROUGHPUT } from "./signed-posts.ts";
import { startWebhookSink } from "./webhook-sink-process.ts";

const JOB_COUNT = THROUGHPUT.events;
const WARM_UP_POST_COUNT = 2_000;
const JOBS_PER_INSERT = 1_000;
const TIMEOUT_MS = 120_000;

/** Settings of graphile-worker by name of the measurement. */
const SETTINGS = {
  "default settings": { concurrentJobs: THROUGHPUT.connections },
  "batches of 500 jobs": {
    concurrentJobs: THROUGHPUT.connections,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
  },
};

try {
  await measureGraphileWorker();
} finally {
  await mochaGlobalTeardown();
}

async function measureGraphileWorker(): Promise<void> {
  const { components } = await getTestServers();
  const database = await createTestDatabase();
  const queue = await makeWorkerUtils({ connectionString: database.urls.projection });
  let jobEventIds = new Set<string>();
  let arrivalTimes: number[] = [];
  // Receipts of the reference's posts can arrive after these posts have ended.
  const sink = await startWebhookSink(([, eventId, receivedAt]) => {
    if (jobEventIds.has(eventId)) arrivalTimes.push(receivedAt);
  });
  const postgresPid = components.postgres.pid;
  const otherPids = { sink: [sink.pid], ...(postgresPid !== undefined && { postgres: [postgresPid] }) };
  try {
    await queue.migrate();
    await measureSignedPosts(sink.url, WARM_UP_POST_COUNT);
    for (const [name, settings] of Object.entries(SETTINGS)) {
      const options = { databaseUrl: database.urls.projection, sinkUrl: sink.url, settings };
      const rateBefore = await measureSignedPosts(sink.url, THROUGHPUT.posts);
      jobEventIds = await addJobs(queue);
      arrivalTimes = [];
      const cpuMicros = await runWorker(
        options,
        otherPids,
        async () => arrivalTimes.length >= JOB_COUNT && isEmpty(queue),
      );
      if (arrivalTimes.length > JOB_COUNT)
        throw new Error(`graphile-worker sent ${arrivalTimes.length} webhooks for ${JOB_COUNT} jobs.`);
      const rate = JOB_COUNT / ((Math.max(...arrivalTimes) - Math.min(...arrivalTimes)) / 1_000);
      const rateAfter = await measureSignedPosts(sink.url, THROUGHPUT.posts);
      printRow({
        name: `graphile-worker: ${name}`,
        rate,
        referenceRate: (rateBefore + rateAfter) / 2,
        cpuMicros,
      });
    }
  } finally {
    sink.stop();
    await queue.release();
    await database.drop();
  }
}

/** Adds jobs to the queue. @returns the ids of the events whose webhooks the jobs send */
async function addJobs(queue: WorkerUtils): Promise<Set<string>> {
  const eventIds = Array.from({ length: JOB_COUNT }, () => randomUUID());
  for (let addedCount = 0; addedCount < JOB_COUNT; addedCount += JOBS_PER_INSERT) {
    await queue.addJobs(
      eventIds.slice(addedCount, addedCount + JOBS_PER_INSERT).map((eventId) => ({
        identifier: "send",
        payload: { deliveryId: randomUUID(), body: createWebhookBody(eventId) },
      })),
    );
  }
  return new Set(eventIds);
}

async function isEmpty(queue: WorkerUtils): Promise<boolean> {
  const { rowCount } = await queue.withPgClient((client) => client.query("SELECT FROM graphile_worker.jobs LIMIT 1"));
  return rowCount === 0;
}

/** Runs a worker until all jobs are done. @returns microseconds of CPU time per job, by process */
async function runWorker(
  options: WorkerOptions,
  otherPids: Record<string, number[]>,
  isDone: () => Promise<boolean>,
): Promise<Record<string, number>> {
  const worker = fork(fileURLToPath(new URL("./graphile-worker-process.ts", import.meta.url)), {
    execArgv: ["--import=tsx"],
  });
  try {
    await once(worker, "message");
    const pids = { worker: [worker.pid as number], ...otherPids };
    const cpuSecondsBefore = readCpuSeconds(pids);
    worker.send(options);
    await eventually("all jobs are done", () => failIfEnded(worker) || isDone(), TIMEOUT_MS);
    const cpuSecondsAfter = readCpuSeconds(pids);
    return Object.fromEntries(
      Object.entries(cpuSecondsAfter).map(([name, seconds]) => [
        name,
        ((seconds - (cpuSecondsBefore[name] ?? 0)) / JOB_COUNT) * 1e6,
      ]),
    );
  } finally {
    worker.kill();
  }
}

function failIfEnded({ exitCode }: ChildProcess): false {
  if (exitCode !== null) throw new Error(`The worker's process ended with code ${exitCode}.`);
  return false;
}
