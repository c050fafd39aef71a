/**
 * Memory of each process of a complete stack: after the start, under load, with many connections, and afterwards.
 * Also measures how soon the latency of reads recovers from 500 busy connections.
 *
 *     npm run bench -- memory
 */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createWorld } from "../e2e/world.ts";
import { mochaGlobalTeardown, startTestStack } from "../support/stack.ts";
import { type LoadResult, measureRate } from "./load.ts";
import { printRow } from "./report.ts";

const LOAD = { seconds: 60, readers: 16, writers: 16 };
const CONNECTIONS = { idle: 2_000, busy: 500, seconds: 10 };
/** Pause after the load of the busy connections, before the latency is measured. Milliseconds. */
const RECOVERY_MS = 2_000;
const IDLE_MS = 15_000;
/** Duration of a measurement of latencies. Milliseconds. */
const LATENCY_MS = 2_000;

const stack = await startTestStack();
try {
  const world = await createWorld(stack);
  const sendRead = () => world.requestPortal("/appointments?limit=50");
  const sendCreate = () => world.createAppointment(randomUUID());
  printMemory("memory after the start", "VmRSS");
  printRow({ name: "reads, one connection", ...(await measureLatencies(sendRead)) });

  await Promise.all([
    sendRepeatedly(LOAD.seconds, LOAD.readers, sendRead),
    sendRepeatedly(LOAD.seconds, LOAD.writers, sendCreate),
  ]);
  printMemory(`peak memory, ${LOAD.seconds} s of reads and creates`, "VmHWM");

  const idleSockets = await openConnections(CONNECTIONS.idle);
  const statusCounts = await sendRepeatedly(CONNECTIONS.seconds, CONNECTIONS.busy, sendRead);
  await sleep(RECOVERY_MS);
  printRow({
    name: `reads, ${RECOVERY_MS / 1_000} s after ${CONNECTIONS.busy} busy connections`,
    ...(await measureLatencies(sendRead)),
  });
  printMemory(`peak memory, ${CONNECTIONS.idle} idle and ${CONNECTIONS.busy} busy connections`, "VmHWM");
  const countTexts = [...statusCounts].map(([status, count]) => `${count} × ${status}`);
  printRow({ name: "responses on busy connections", note: countTexts.join(", "), isDetail: true });
  for (const socket of idleSockets) socket.destroy();
  await sleep(IDLE_MS);
  printMemory(`memory after ${IDLE_MS / 1_000} s without load`, "VmRSS");
} finally {
  await mochaGlobalTeardown();
}

/** Sends requests concurrently. @returns the number of responses by status */
async function sendRepeatedly(
  seconds: number,
  concurrency: number,
  send: () => Promise<{ status: number }>,
): Promise<Map<number, number>> {
  const statusCounts = new Map<number, number>();
  const endsAt = performance.now() + seconds * 1_000;
  const runWorker = async () => {
    while (performance.now() < endsAt) {
      const { status } = await send();
      statusCounts.set(status, (statusCounts.get(status) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, runWorker));
  return statusCounts;
}

/** Measures requests that are sent one after the other. */
function measureLatencies(send: () => Promise<unknown>): Promise<LoadResult> {
  return measureRate({ runTask: send, concurrency: 1, pids: {}, warmUpMs: 0, measuredMs: LATENCY_MS });
}

/** Opens connections to the gateway that send nothing. */
async function openConnections(count: number): Promise<Socket[]> {
  const { hostname, port } = new URL(stack.urls.gateway);
  const sockets = Array.from({ length: count }, () => connect(Number(port), hostname));
  await Promise.all(sockets.map((socket) => once(socket, "connect")));
  // The gateway closes connections that send no request.
  for (const socket of sockets) socket.on("error", () => undefined);
  return sockets;
}

/** Prints the memory of each process except Postgres. @param field current (VmRSS) or peak (VmHWM) resident memory */
function printMemory(name: string, field: "VmRSS" | "VmHWM"): void {
  const { postgres: _, ...components } = stack.components;
  const memoryTexts = Object.values(components).flatMap(({ name, pid }) => {
    if (pid === undefined) return [];
    const [, kilobytes] = new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return `${name} ${(Number(kilobytes) / 1_024).toFixed(0)}`;
  });
  printRow({ name, note: `MiB: ${memoryTexts.join(", ")}`, isDetail: field === "VmRSS" });
}
