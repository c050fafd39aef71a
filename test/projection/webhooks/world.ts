/**
 * Runs projectors, relay and webhooks in the test's process. Each world has its own database. Unless EVENTSTORE_URL is
 * set, it also has its own event log, so that its roles do not process events of other tests.
 */
import { randomUUID } from "node:crypto";
import type pg from "pg";
import { markFilled } from "../../../projection/checkpoints/checkpoint.ts";
import { startProjectors } from "../../../projection/engine/projectors.ts";
import type { NatsSettings } from "../../../projection/nats/nats-settings.ts";
import { ensureReadModels, migrate } from "../../../projection/prepare-database.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { startRelay } from "../../../projection/relay/relay.ts";
import type { Role } from "../../../projection/roles/role.ts";
import {
  type RecordOptions,
  recordEvents,
  type UnrecordedEvent,
} from "../../../projection/webhooks/record/record-events.ts";
import { startWebhooks, type WebhooksOptions } from "../../../projection/webhooks/webhooks.ts";
import type { AppointmentEvent } from "../../../shared/domain/events/appointment.ts";
import type { WebhookEndpointEvent } from "../../../shared/domain/events/partner.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { deriveWebhookDeliveryId } from "../../../shared/webhooks/delivery-id.ts";
import { createTestDataKeys } from "../../support/data-keys.ts";
import { eventually } from "../../support/eventually.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { startOwnLog } from "../../support/own-log.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { releaseLater } from "../../support/resources.ts";
import { getTestServers } from "../../support/stack.ts";
import { BRAND } from "./service-settings.ts";
import {
  type AppointmentOptions,
  createAppender,
  type Endpoint,
  type EndpointOptions,
  registerEndpoint,
  requestAppointment,
  secretBox,
} from "./world-events.ts";

export type { Endpoint, EndpointOptions, RequestedAppointment } from "./world-events.ts";

const logger = createLogger("test", process.env.TEST_LOG_LEVEL ?? "silent");

export interface Delivery {
  status: string;
  attempt_count: number;
  next_attempt_at: string | null;
  attempts: {
    number: number;
    duration_ms: number | null;
    status_code: number | null;
    error: string | null;
    answer: string | null;
  }[];
}

/** Lease for claims in tests without a webhooks role. Requires `registerSender`. */
export const LEASE = { senderId: randomUUID(), leaseMs: 60_000 };

export const registerSender = (pool: pg.Pool) =>
  pool.query("INSERT INTO webhooks.sender (sender_id) VALUES ($1)", [LEASE.senderId]);

/** Servers to use instead of the shared test servers. */
export interface WorldServers {
  eventstoreUrl: string;
  natsUrl: string;
  /** Additional settings of the NATS connection. */
  nats?: Partial<NatsSettings>;
  databaseUrl: string;
}

export type World = Awaited<ReturnType<typeof createWorld>>;

/** @param servers servers to use instead of test servers. A given database gets the migrations and read models */
export async function createWorld(servers: Partial<WorldServers> = {}) {
  const database = servers.databaseUrl === undefined ? await createDatabaseWithReadModels() : undefined;
  const ownLog = servers.eventstoreUrl === undefined ? await startOwnLog() : undefined;
  const databaseUrl = servers.databaseUrl ?? database!.urls.projection;
  const eventstoreUrl = servers.eventstoreUrl ?? ownLog!.eventstoreUrl;
  const natsUrl = servers.natsUrl ?? (await getTestServers()).natsUrl;
  const client = connectEventStore(eventstoreUrl, "test");
  const options = {
    url: databaseUrl,
    applicationName: "test",
    size: 6,
    connectTimeoutMs: 60_000,
    statementTimeoutMs: 30_000,
    lockTimeoutMs: 1_000,
    logger,
  };
  const pool = createPool(options);
  const dataKeys = createTestDataKeys(pool);
  const log = createPlainLog(client);
  if (database === undefined) {
    await migrate(databaseUrl, logger);
    await ensureReadModels(pool, readModels);
  }
  // The log is still empty, so partners receive all its events.
  await markFilled(pool, READ_MODEL_SCHEMA);
  const roles = new Set<Role>();
  const nats = { ...servers.nats, NATS_URL: natsUrl };
  const start = createStarters({ client, log, pool, dataKeys, databaseUrl, nats, logger }, roles);
  const append = createAppender(log);
  const world = {
    client,
    log,
    pool,
    dataKeys,
    logger,
    databaseUrl,
    eventstoreUrl,
    natsUrl,
    start,
    append,
    seal: secretBox.seal,
    registerEndpoint: (url: string, options: Partial<EndpointOptions> = {}) => registerEndpoint(append, url, options),
    requestAppointment: (clinicId: string, options: AppointmentOptions = {}) =>
      requestAppointment(append, clinicId, options),
    readDelivery: (eventId: string, endpoint: Endpoint) => readDelivery(pool, eventId, endpoint),
    startAll(options?: Partial<WebhooksOptions>) {
      start.projectors();
      start.relay();
      start.webhooks(options);
    },
    async stopRoles(...chosenRoles: Role[]) {
      for (const role of chosenRoles) roles.delete(role);
      await Promise.all(chosenRoles.map((role) => role.stop()));
    },
    /** Appends an event to the stream of an appointment. @returns the event's id */
    changeAppointment: (appointmentId: string, type: AppointmentEvent["type"], data: object = {}) =>
      append(`appointment-${appointmentId}`, { type, data: { appointmentId, ...data } } as AppointmentEvent, {
        environment: "production",
      }),
    /** Appends an event to the stream of an endpoint. @returns the event's id */
    changeEndpoint: ({ endpointId }: Endpoint, type: WebhookEndpointEvent["type"], data: object = {}) =>
      append(`webhookEndpoint-${endpointId}`, { type, data: { endpointId, ...data } } as WebhookEndpointEvent, {
        environment: "production",
      }),
    /** Requests a replay of an event's delivery. @returns the delivery's id */
    async requestReplay(eventId: string, endpoint: Endpoint) {
      const deliveryId = deriveWebhookDeliveryId(eventId, endpoint.endpointId);
      await world.requestReplays(endpoint, { deliveryIds: [deliveryId], since: null, statuses: ["failed", "skipped"] });
      return deliveryId;
    },
    /** Requests a replay of several deliveries, by default of those that failed on one day. @returns the replay's id */
    async requestReplays({ endpointId, applicationId, clinicId }: Endpoint, changes: object = {}) {
      const replayId = randomUUID();
      const selection = { deliveryIds: null, since: "2026-01-01T00:00:00.000Z", until: "2026-01-02T00:00:00.000Z" };
      const owner = { endpointId, applicationId, clinicId, environment: "production" as const };
      const data = { replayId, ...owner, ...selection, statuses: ["failed" as const], requestHash: "0".repeat(64) };
      await append(`webhookReplay-${replayId}`, { type: "WebhookReplayRequested", data: { ...data, ...changes } });
      return replayId;
    },
    /** Appends unrecorded events to the log, as the webhooks role does. @returns their number */
    async recordEvents(unrecordedEvents: readonly UnrecordedEvent[], options: Partial<RecordOptions> = {}) {
      await recordEvents({ client, pool, log, logger, ...options }, unrecordedEvents);
      return unrecordedEvents.length;
    },
    /** Waits until `check` returns true for the delivery of an event to an endpoint. */
    waitForDelivery: (
      eventId: string,
      endpoint: Endpoint,
      check: (delivery: Delivery) => boolean,
      timeoutMs?: number,
    ): Promise<Delivery> =>
      eventually(
        "the delivery",
        async () => {
          const delivery = await readDelivery(pool, eventId, endpoint);
          return delivery && check(delivery) ? delivery : undefined;
        },
        timeoutMs,
      ),
    /** Waits until the delivery of an event to an endpoint has a status. */
    awaitStatus: (eventId: string, endpoint: Endpoint, wantedStatus: string, timeoutMs?: number) =>
      world.waitForDelivery(eventId, endpoint, ({ status }) => status === wantedStatus, timeoutMs),
    /** Waits until the first attempt of a delivery has got a response with the status. */
    awaitFirstResponse: (eventId: string, endpoint: Endpoint, statusCode: number) =>
      world.waitForDelivery(eventId, endpoint, ({ attempts }) => attempts[0]?.status_code === statusCode),
    listEventTypes: async (stream: string): Promise<string[]> => (await log.read(stream)).map(({ type }) => type),
    readEndpointState: async ({ endpointId }: Endpoint) => {
      const { rows } = await pool.query<{ status: string; disabled_reason: string | null }>(
        `SELECT status, disabled_reason FROM ${READ_MODEL_SCHEMA}.webhook_endpoint WHERE endpoint_id = $1`,
        [endpointId],
      );
      return rows[0];
    },
    /** Waits until the read models contain the endpoint with the given status. */
    awaitEndpointStatus: (endpoint: Endpoint, status: string) =>
      eventually(`the endpoint ${status}`, async () => {
        const state = await world.readEndpointState(endpoint);
        return state?.status === status && state;
      }),
    /** Waits until exactly `count` rows of a read model meet the condition. */
    awaitRows: (table: string, condition: string, values: unknown[] = [], count = 1) =>
      eventually(`${count} rows of ${table}`, async () => {
        const sql = `SELECT FROM ${READ_MODEL_SCHEMA}.${table} WHERE ${condition}`;
        return (await pool.query(sql, values)).rowCount === count;
      }),
    close: releaseLater(async () => {
      await Promise.all([...roles].map((role) => role.stop()));
      await pool.end();
      await client.dispose();
      await ownLog?.stop();
      await database?.drop();
    }),
  };
  return world;
}

function createStarters(
  deps: Parameters<typeof startRelay>[0] & { log: EventLog; dataKeys: DataKeys },
  roles: Set<Role>,
): { projectors(): Role; relay(): Role; webhooks(options?: Partial<WebhooksOptions>): Role } {
  const registerRole = (role: Role) => {
    roles.add(role);
    return role;
  };
  const defaultOptions = {
    secretReader: secretBox,
    brand: BRAND,
    retryScheduleSeconds: [0.2, 0.2, 0.2],
    connectTimeoutMs: 1_000,
    timeoutMs: 1_000,
    allowsLoopback: true,
  };
  return {
    projectors: () => registerRole(startProjectors({ ...deps, models: readModels })),
    relay: () => registerRole(startRelay(deps)),
    webhooks: (options = {}) => registerRole(startWebhooks({ ...deps, ...defaultOptions, ...options })),
  };
}

async function readDelivery(pool: pg.Pool, eventId: string, { endpointId }: Endpoint): Promise<Delivery | undefined> {
  const { rows } = await pool.query<Delivery>(
    `SELECT d.status, COALESCE(p.attempt_count, d.attempt_count) AS attempt_count, d.next_attempt_at,
            ARRAY(SELECT to_jsonb(a) FROM webhooks.attempt a WHERE a.delivery_id = d.delivery_id ORDER BY number) AS attempts
       FROM webhooks.delivery d LEFT JOIN webhooks.pending_delivery p USING (delivery_id) WHERE d.delivery_id = $1`,
    [deriveWebhookDeliveryId(eventId, endpointId)],
  );
  return rows[0];
}
