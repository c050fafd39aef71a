/** The projection service and a sink, each a process of its own, on real servers; the load comes from this process. */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createWorld, SECRET_KEYS } from "../projection/webhooks/world.ts";
import type { Receipt } from "./webhook-sink.ts";

export interface BenchWorld {
  sinkUrl: string;
  /** Registers an endpoint of a clinic of its own; gives the clinic. */
  endpoint(url: string): Promise<string>;
  /** Appends an appointment of a clinic, and remembers when, for {@link waits}. */
  appointment(clinicId: string): Promise<string>;
  /** Waits until so many deliveries have come since the last {@link forget}. */
  received(count: number, within: number): Promise<void>;
  /** From append to receipt, of each event that came. Milliseconds. */
  waits(eventIds: readonly string[]): number[];
  /** When a delivery of each event came first. Milliseconds since 1970. */
  receipts: Map<string, number>;
  forget(): void;
  /** Starts the service and waits until it is ready. */
  startService(): Promise<void>;
  stop(): Promise<void>;
}

export const now = () => performance.timeOrigin + performance.now();

export async function createBenchWorld(): Promise<BenchWorld> {
  const world = await createWorld();
  const receipts = new Map<string, number>();
  const appended = new Map<string, number>();
  const sink = fork(fileURLToPath(new URL("./webhook-sink.ts", import.meta.url)), {
    execArgv: ["--import=tsx"],
  });
  const [{ port }] = (await once(sink, "message")) as [{ port: number }];
  sink.on("message", (message: { receipts: Receipt[] }) => {
    for (const [id, at] of message.receipts) if (!receipts.has(id)) receipts.set(id, at);
  });
  let service: ChildProcess | undefined;
  return {
    sinkUrl: `http://127.0.0.1:${port}`,
    receipts,
    endpoint: async (url) => (await world.endpoint(url, { events: ["appointment.created"] })).clinicId,
    async appointment(clinicId) {
      const event = appointmentRequested(clinicId);
      appended.set(event.id, now());
      await world.log.append(event.stream, -1n, [event]);
      return event.id;
    },
    async received(count, within) {
      const until = now() + within;
      while (receipts.size < count) {
        if (now() > until) throw new Error(`${receipts.size} of ${count} deliveries within ${within} ms`);
        await sleep(10);
      }
    },
    waits: (ids) =>
      ids.flatMap((id) => {
        const [from, to] = [appended.get(id), receipts.get(id)];
        return from === undefined || to === undefined ? [] : [to - from];
      }),
    forget() {
      receipts.clear();
      appended.clear();
    },
    async startService() {
      service = spawnService(world);
      await once(service.stdout ?? service, "data");
      await sleep(1_500);
    },
    async stop() {
      service?.kill("SIGTERM");
      if (service) await once(service, "exit");
      sink.disconnect();
      await world.close();
    },
  };
}

function spawnService(urls: { eventstoreUrl: string; databaseUrl: string; natsUrl: string }): ChildProcess {
  const main = fileURLToPath(new URL("../../projection/main.ts", import.meta.url));
  return spawn(process.execPath, ["--import=tsx", main], {
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      ...process.env,
      ...{ PORT: "0", LOG_LEVEL: "info", WEBHOOK_ALLOW_LOOPBACK: "true" },
      ...{ EVENTSTORE_URL: urls.eventstoreUrl, DATABASE_URL: urls.databaseUrl, NATS_URL: urls.natsUrl },
      WEBHOOK_SECRET_KEYS: JSON.stringify(SECRET_KEYS),
    },
  });
}

function appointmentRequested(clinicId: string) {
  const appointmentId = randomUUID();
  const people = { animalId: randomUUID(), customerId: randomUUID(), applicationId: null, requestHash: null };
  const time = { scheduledAt: "2030-05-01T09:00:00.000Z", durationMinutes: 30 };
  const data = {
    appointmentId,
    clinicId,
    branchId: randomUUID(),
    ...people,
    ...time,
    reason: null,
    notes: null,
    sandboxGeneration: 0,
  };
  return {
    id: randomUUID(),
    stream: `appointment-${appointmentId}`,
    event: { type: "AppointmentRequested", data } as const,
    metadata: {
      ...{ $correlationId: randomUUID(), $causationId: randomUUID(), schemaVersion: 1 },
      actor: { type: "operator" as const, id: "bench" },
      ...{ clinicId, environment: "production" as const, occurredAt: new Date().toISOString() },
    },
  };
}
