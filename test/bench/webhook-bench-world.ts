/**
 * Environment of the webhook benchmarks. The projection service runs in two processes, and a third process receives the
 * webhooks. The benchmark's own process creates the load.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { buildServiceSettings } from "../projection/service-process.ts";
import { SECRET_KEYS } from "../projection/webhooks/service-settings.ts";
import { createWorld, type Endpoint, type EndpointOptions, type World } from "../projection/webhooks/world.ts";
import { appointmentRequested } from "../support/clinics.ts";
import { createTestDatabase, getTestServers } from "../support/stack.ts";
import { createStoredMetadata } from "../support/stored-metadata.ts";
import { measurePostgres } from "./measure-postgres.ts";
import type { Receipt, SampledRequest } from "./webhook-sink.ts";
import { startWebhookSink } from "./webhook-sink-process.ts";

export type BenchWorld = Awaited<ReturnType<typeof createBenchWorld>>;

/** Roles of each process of the projection service. */
const SERVICE_PROCESSES = ["projectors,relay", "webhooks"];

export const now = () => performance.timeOrigin + performance.now();

export async function createBenchWorld() {
  // The servers run in separate processes, because a log in this process would compete with the load for the same core.
  const { eventstoreUrl, natsUrl, components } = await getTestServers();
  const database = await createTestDatabase();
  const world = await createWorld({ eventstoreUrl, natsUrl, databaseUrl: database.urls.projection });
  const receiptTimes = new Map<string, number>();
  const appendTimes = new Map<string, number>();
  const requestCounts = new Map<string, number>();
  const secretsByClinic = new Map<string, string[]>();
  const signatureCounts = { valid: 0, invalid: 0 };
  const onReceipt = ([deliveryId, id, receivedAt]: Receipt) => {
    if (!appendTimes.has(id)) return;
    requestCounts.set(deliveryId, (requestCounts.get(deliveryId) ?? 0) + 1);
    if (!receiptTimes.has(id)) receiptTimes.set(id, receivedAt);
  };
  const sink = await startWebhookSink(onReceipt, (sample) => {
    const knownSecrets = secretsByClinic.get((JSON.parse(sample.body) as { clinicId: string }).clinicId);
    if (knownSecrets)
      signatureCounts[knownSecrets.some((secret) => isSigned(sample, secret)) ? "valid" : "invalid"] += 1;
  });
  const awaitCount = async (label: string, arrivals: { size: number }, count: number, timeoutMs: number) => {
    const deadline = now() + timeoutMs;
    while (arrivals.size < count) {
      if (now() > deadline) throw new Error(`Only ${arrivals.size} of ${count} ${label} arrived in ${timeoutMs} ms`);
      await sleep(10);
    }
  };
  /** Registers endpoints of one application at a new clinic. @returns the clinic's id */
  const registerEndpoints = async (url: string, count: number, options: Partial<EndpointOptions> = {}) => {
    const allOptions = { events: ["appointment.created" as const], ...options };
    const firstEndpoint = await world.registerEndpoint(url, allOptions);
    const siblingOptions = { ...allOptions, siblingEndpoint: firstEndpoint };
    const otherEndpointPromises = Array.from({ length: count - 1 }, () => world.registerEndpoint(url, siblingOptions));
    const endpoints = [firstEndpoint, ...(await Promise.all(otherEndpointPromises))];
    secretsByClinic.set(
      firstEndpoint.clinicId,
      endpoints.map(({ secret }) => secret),
    );
    return firstEndpoint.clinicId;
  };
  /**
   * Appends the first events of a new appointment in one write, and records the time.
   *
   * @returns the events' ids, in order
   */
  const appendAppointmentEvents = async (clinicId: string, count: number) => {
    const { stream, events } = createAppointmentEvents(clinicId, count);
    for (const { id } of events) appendTimes.set(id, now());
    await world.log.append(stream, -1n, events);
    return events.map(({ id }) => id);
  };
  let serviceProcesses: ChildProcess[] = [];
  /** Stops the service with SIGTERM and waits until its processes have ended. */
  const stopService = async () => {
    const runningProcesses = serviceProcesses;
    serviceProcesses = [];
    for (const child of runningProcesses) child.kill("SIGTERM");
    await Promise.all(runningProcesses.map((child) => once(child, "exit")));
  };
  return {
    sinkUrl: sink.url,
    /** URL of the same receiver with another port, so that connections are not shared with `sinkUrl`. */
    otherSinkUrl: sink.otherUrl,
    /** Time at which the first webhook of each event arrived, by event id. Milliseconds since 1970. */
    receiptTimes,
    /** Number of requests for each delivery, by delivery id. */
    requestCounts,
    /** Numbers of sampled requests with a valid and with an invalid signature. */
    signatureCounts,
    /** Registers an endpoint at a new clinic. @returns the clinic's id */
    registerEndpoint: (url: string) => registerEndpoints(url, 1),
    registerEndpoints,
    appendAppointmentEvents,
    /** Appends the first event of a new appointment, and records the time. @returns the event's id */
    appendAppointment: async (clinicId: string) => (await appendAppointmentEvents(clinicId, 1))[0]!,
    /** Waits until webhooks of `count` different events have arrived since the last `clearReceipts`. */
    awaitReceipts: (count: number, timeoutMs: number) => awaitCount("events", receiptTimes, count, timeoutMs),
    /** Waits until requests for `count` different deliveries have arrived since the last `clearReceipts`. */
    awaitDeliveries: (count: number, timeoutMs: number) => awaitCount("deliveries", requestCounts, count, timeoutMs),
    /** Returns the times from append to receipt. Skips events whose webhook has not arrived. Milliseconds. */
    listWaitTimes: (ids: readonly string[]) =>
      ids.flatMap((id) => {
        const [appendedAt, receivedAt] = [appendTimes.get(id), receiptTimes.get(id)];
        return appendedAt === undefined || receivedAt === undefined ? [] : [receivedAt - appendedAt];
      }),
    clearReceipts() {
      receiptTimes.clear();
      requestCounts.clear();
      appendTimes.clear();
    },
    async startService() {
      serviceProcesses = SERVICE_PROCESSES.map((roles) => spawnService(world, roles));
      await Promise.all(serviceProcesses.map((child) => once(child.stdout ?? child, "data")));
      await sleep(1_500);
    },
    stopService,
    /** Runs work and returns the number of WAL bytes that Postgres wrote. */
    measureWal: async (runWorkload: () => Promise<unknown>) =>
      (await measurePostgres(world.pool, runWorkload)).walBytes,
    /** Returns the process ids of the service, by roles, and of the servers, by name. */
    listPids: () => ({
      ...Object.fromEntries(SERVICE_PROCESSES.map((roles, index) => [roles, [serviceProcesses[index]?.pid ?? 0]])),
      ...Object.fromEntries(
        (["postgres", "nats", "eventstore"] as const).map((name) => [name, [components[name].pid ?? 0]]),
      ),
    }),
    /** Returns the peak memory of the service process that used the most. MiB. */
    readPeakMemoryMib() {
      const peakSizesMib = serviceProcesses.map(({ pid }) => {
        const status = readFileSync(`/proc/${pid}/status`, "utf8");
        return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1_024;
      });
      return Math.max(...peakSizesMib);
    },
    /** Inserts due deliveries for new endpoints of new applications, in batches of 5,000 deliveries. */
    async insertDueDeliveries(
      url: string,
      applicationCount: number,
      endpointsPerApplication: number,
      deliveryCount: number,
    ) {
      const endpoints: Endpoint[] = [];
      for (let n = 0; n < applicationCount; n += 1) {
        const sibling = await world.registerEndpoint(url);
        const otherEndpointPromises = Array.from({ length: endpointsPerApplication - 1 }, () =>
          world.registerEndpoint(url, { siblingEndpoint: sibling }),
        );
        endpoints.push(sibling, ...(await Promise.all(otherEndpointPromises)));
      }
      const values = [
        endpoints.map(({ endpointId }) => endpointId),
        endpoints.map(({ applicationId }) => applicationId),
        endpoints.map(({ clinicId }) => clinicId),
        JSON.stringify({ filler: "x".repeat(500) }),
      ];
      for (let n = 0; n < deliveryCount; n += 5_000)
        await world.pool.query(INSERT_DUE_DELIVERIES_SQL, [5_000, ...values]);
    },
    /** Cancels all pending deliveries, and waits until the attempts in progress have ended. */
    async cancelDueDeliveries() {
      for (;;) {
        const { rowCount: cancelledCount } = await world.pool.query(
          `WITH cancelled AS (
             DELETE FROM webhooks.pending_delivery WHERE delivery_id IN (
               SELECT delivery_id FROM webhooks.pending_delivery WHERE lease_expires_at IS NULL LIMIT 5000)
             RETURNING delivery_id)
           UPDATE webhooks.delivery d SET status = 'cancelled', next_attempt_at = NULL
             FROM cancelled WHERE d.delivery_id = cancelled.delivery_id`,
        );
        const { rowCount: remainingCount } = await world.pool.query("SELECT FROM webhooks.pending_delivery LIMIT 1");
        if (cancelledCount === 0 && remainingCount === 0) return;
        await sleep(100);
      }
    },
    /** Returns the number of finished attempts in this database. */
    async countAttempts() {
      const { rows } = await world.pool.query<{ count: number }>(
        "SELECT count(*)::integer AS count FROM webhooks.attempt WHERE duration_ms IS NOT NULL",
      );
      return rows[0]?.count ?? 0;
    },
    async stop() {
      await stopService();
      sink.stop();
      await world.close();
      await database.drop();
    },
  };
}

/**
 * Inserts one public event with the data $5, and $1 deliveries of the event. The deliveries are distributed evenly over
 * endpoints. The arrays $2 to $4 contain the ids of the endpoints, applications and clinics.
 */
const INSERT_DUE_DELIVERIES_SQL = `
  WITH event AS (
    INSERT INTO ${READ_MODEL_SCHEMA}.public_event (event_id, position, occurred_at, type, data, correlation_id)
    SELECT gen_random_uuid(), -1, now(), 'appointment.created', $5::json, gen_random_uuid()
    RETURNING event_id),
  added AS (
    INSERT INTO webhooks.delivery (delivery_id, endpoint_id, application_id, clinic_id, environment, event_id, event_type,
      event_position, status, cause_id, correlation_id, next_attempt_at, created_at, updated_at)
    SELECT gen_random_uuid(), e.endpoint_id, e.application_id, e.clinic_id, 'production', event.event_id,
           'appointment.created', 0, 'pending', gen_random_uuid(), gen_random_uuid(), now(), now(), now()
      FROM generate_series(0, $1::integer - 1) n
     CROSS JOIN event
      JOIN unnest($2::uuid[], $3::uuid[], $4::uuid[]) WITH ORDINALITY AS e (endpoint_id, application_id, clinic_id, place)
        ON e.place = 1 + n % cardinality($2::uuid[])
    RETURNING delivery_id, endpoint_id, event_id, next_attempt_at)
  INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, event_id, event_position, next_attempt_at,
    failed_attempt_count, attempt_count)
  SELECT delivery_id, endpoint_id, event_id, 0, next_attempt_at, 0, 0 FROM added`;

function isSigned({ headers, body }: SampledRequest, secret: string): boolean {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch (error) {
    if (error instanceof WebhookVerificationError) return false;
    throw error;
  }
}

function spawnService(world: World, roles: string): ChildProcess {
  const mainFile = fileURLToPath(new URL("../../projection/main.ts", import.meta.url));
  return spawn(process.execPath, ["--import=tsx", mainFile], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, ...buildServiceSettings({ ...world, roles, secretKeys: SECRET_KEYS }) },
  });
}

/** Creates the first events of a new appointment: a request, and then changes of its duration. */
function createAppointmentEvents(clinicId: string, count: number) {
  const appointmentId = randomUUID();
  const scheduledAt = "2030-05-01T09:00:00.000Z";
  const references = { appointmentId, animalId: randomUUID(), customerId: randomUUID() };
  const environment = "production" as const;
  const metadata = { ...createStoredMetadata(), clinicId, environment, occurredAt: new Date().toISOString() };
  const events: CatalogEvent[] = [
    appointmentRequested(clinicId, randomUUID(), scheduledAt, references),
    ...Array.from({ length: count - 1 }, (_, n) => ({
      type: "AppointmentRescheduled" as const,
      data: { appointmentId, scheduledAt, durationMinutes: n + 1, reason: null },
    })),
  ];
  return {
    stream: `appointment-${appointmentId}`,
    events: events.map((event) => ({ id: randomUUID(), event, metadata })),
  };
}
