/**
 * Runs projectors, relay and webhooks in the test's process. Each world has a separate database. It also has a separate
 * event log unless EVENTSTORE_URL is set, so that its roles do not process the events of other tests.
 */

import { randomBytes, randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { startProjectors } from "../../../projection/engine/projectors.ts";
import { ensureReadModels, migrate } from "../../../projection/prepare-database.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import type { NatsSettings } from "../../../projection/relay/nats-settings.ts";
import { startRelay } from "../../../projection/relay/relay.ts";
import type { Role } from "../../../projection/roles/role.ts";
import { startWebhooks, type WebhooksOptions } from "../../../projection/webhooks/webhooks.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import type { AppointmentEvent } from "../../../shared/domain/events/appointment.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import type { DeliveryOrdering, WebhookEventType } from "../../../shared/domain/events/partner.ts";
import { parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { type EventLog, WrongExpectedRevisionError } from "../../../shared/eventstore/log.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { createTestDataKeys } from "../../support/data-keys.ts";
import { eventually } from "../../support/eventually.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { startOwnLog } from "../../support/own-log.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { getTestServers } from "../../support/stack.ts";
import { BRAND, SECRET_KEYS } from "./service-settings.ts";

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

export interface Endpoint {
  endpointId: string;
  applicationId: string;
  clinicId: string;
  installationId: string;
  secret: string;
}

/** Servers to use instead of the shared test servers. */
export interface WorldServers {
  eventstoreUrl: string;
  natsUrl: string;
  /** Further settings of the connection to NATS. */
  nats?: Partial<NatsSettings>;
  databaseUrl: string;
}

export interface World extends WorldServers {
  client: EventStoreDBClient;
  log: EventLog;
  pool: pg.Pool;
  dataKeys: DataKeys;
  start: {
    projectors(): Role;
    relay(): Role;
    webhooks(options?: Partial<WebhooksOptions>): Role;
  };
  /** Starts projectors, relay and webhooks. */
  startAll(options?: Partial<WebhooksOptions>): void;
  stopRoles(...roles: Role[]): Promise<void>;
  /** Appends an event to a stream. @returns the event's id */
  append(
    stream: string,
    event: CatalogEvent,
    options?: { environment?: Environment; clinicId?: string },
  ): Promise<string>;
  registerEndpoint(url: string, options?: Partial<EndpointOptions>): Promise<Endpoint>;
  requestAppointment(
    clinicId: string,
    options?: { environment?: Environment; branchId?: string },
  ): Promise<RequestedAppointment>;
  /** Appends an event to the stream of an appointment. @returns the event's id */
  changeAppointment(appointmentId: string, event: AppointmentEvent): Promise<string>;
  seal(secret: string): Promise<string>;
  readDelivery(eventId: string, endpoint: Endpoint): Promise<Delivery | undefined>;
  /** Waits until the check accepts the delivery of an event to an endpoint. */
  waitForDelivery(
    eventId: string,
    endpoint: Endpoint,
    check: (delivery: Delivery) => boolean,
    timeoutMs?: number,
  ): Promise<Delivery>;
  close(): Promise<void>;
}

export interface EndpointOptions {
  clinicId: string;
  applicationId: string;
  environment: Environment;
  events: WebhookEventType[];
  branchIds: string[] | null;
  ordering: DeliveryOrdering;
  /** Existing endpoint. The new endpoint gets the same application and installation. */
  siblingEndpoint: Endpoint;
}

/** A new appointment, and the id of its first event. */
export interface RequestedAppointment {
  appointmentId: string;
  eventId: string;
}

/** @param servers servers to use. The given database is migrated. Every other server is a shared or new test server. */
export async function createWorld(servers: Partial<WorldServers> = {}): Promise<World> {
  const database = servers.databaseUrl === undefined ? await createDatabaseWithReadModels() : undefined;
  const ownLog = servers.eventstoreUrl === undefined ? await startOwnLog() : undefined;
  const databaseUrl = servers.databaseUrl ?? database!.urls.projection;
  const eventstoreUrl = servers.eventstoreUrl ?? ownLog!.eventstoreUrl;
  const natsUrl = servers.natsUrl ?? (await getTestServers()).natsUrl;
  const client = connectEventStore(eventstoreUrl, "test");
  const options = { url: databaseUrl, applicationName: "test", size: 6, statementTimeoutMs: 5_000, logger };
  const pool = createPool(options);
  const dataKeys = createTestDataKeys(pool);
  const log = createPlainLog(client);
  if (database === undefined) {
    await migrate(databaseUrl, logger);
    await ensureReadModels(pool, readModels);
  }
  const roles = new Set<Role>();
  const start = createStarters(
    { client, log, pool, dataKeys, databaseUrl, nats: { ...servers.nats, url: natsUrl }, logger },
    roles,
  );
  const append = createAppender(log);
  return {
    client,
    log,
    pool,
    dataKeys,
    databaseUrl,
    eventstoreUrl,
    natsUrl,
    start,
    append,
    registerEndpoint: (url, options = {}) => registerEndpoint(append, url, options),
    requestAppointment: (clinicId, options = {}) => requestAppointment(append, clinicId, options),
    readDelivery: (eventId, endpoint) => readDelivery(pool, eventId, endpoint),
    seal: secretBox.seal,
    startAll(options) {
      start.projectors();
      start.relay();
      start.webhooks(options);
    },
    changeAppointment: (appointmentId, event) =>
      append(`appointment-${appointmentId}`, event, { environment: "production" }),
    async stopRoles(...chosenRoles) {
      for (const role of chosenRoles) roles.delete(role);
      await Promise.all(chosenRoles.map((role) => role.stop()));
    },
    waitForDelivery: (eventId, endpoint, check, timeoutMs) => {
      const findDelivery = async () => {
        const delivery = await readDelivery(pool, eventId, endpoint);
        return delivery && check(delivery) ? delivery : undefined;
      };
      return eventually("the delivery", findDelivery, timeoutMs);
    },
    async close() {
      await Promise.all([...roles].map((role) => role.stop()));
      await pool.end();
      await client.dispose();
      await ownLog?.stop();
      await database?.drop();
    },
  };
}

const secretBox = createSecretBox(SECRET_KEYS);

function createStarters(
  deps: Parameters<typeof startRelay>[0] & { log: EventLog; dataKeys: DataKeys },
  roles: Set<Role>,
): World["start"] {
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

function createAppender(log: EventLog): World["append"] {
  return async (stream, event, options = {}) => {
    const id = randomUUID();
    const metadata = {
      $correlationId: randomUUID(),
      $causationId: randomUUID(),
      actor: { type: "operator" as const, id: "test" },
      clinicId: options.clinicId ?? null,
      environment: options.environment ?? null,
      schemaVersion: 1,
      occurredAt: new Date().toISOString(),
    };
    // Checks the event against the catalog, so that tests append only valid events.
    if (!parseStoredEvent({ ...event, metadata })) throw new Error(`Unknown event type: ${event.type}`);
    // The service may append to the same stream concurrently.
    for (;;) {
      const revision = (await log.readLast(stream))?.revision ?? -1n;
      try {
        await log.append(stream, revision, [{ id, event, metadata }]);
        return id;
      } catch (error) {
        if (!(error instanceof WrongExpectedRevisionError)) throw error;
      }
    }
  };
}

/**
 * Registers an endpoint. If `more.siblingEndpoint` is absent, first registers an application and installs it at a
 * clinic.
 */
async function registerEndpoint(
  append: World["append"],
  url: string,
  options: Partial<EndpointOptions>,
): Promise<Endpoint> {
  const { events = ["appointment.created", "appointment.updated"], environment = "production" } = options;
  const installation = options.siblingEndpoint ?? (await installApplication(append, url, options));
  const { applicationId, clinicId, installationId } = installation;
  const endpointId = randomUUID();
  const secret = `whsec_${randomBytes(32).toString("base64")}`;
  const encryptedSecret = await secretBox.seal(secret);
  const owner = { endpointId, applicationId, clinicId, environment };
  await append(`webhookEndpoint-${endpointId}`, {
    type: "WebhookEndpointRegistered",
    data: { ...owner, url, events, secretId: randomUUID(), encryptedSecret },
  });
  const { ordering } = options;
  if (ordering) {
    const data = { endpointId, ordering };
    await append(`webhookEndpoint-${endpointId}`, { type: "WebhookEndpointChanged", data });
  }
  return { endpointId, applicationId, clinicId, installationId, secret };
}

/** Registers an application with an approved origin, and installs it at a clinic. */
async function installApplication(append: World["append"], url: string, options: Partial<EndpointOptions>) {
  const { applicationId = randomUUID(), clinicId = randomUUID(), environment = "production" } = options;
  const { branchIds = null } = options;
  const scopes = ["webhooks:write" as const];
  const installationId = randomUUID();
  await append(`partnerApplication-${applicationId}`, {
    type: "ApplicationRegistered",
    data: { applicationId, environment, name: "Calendar", scopes },
  });
  await append(`partnerApplication-${applicationId}`, {
    type: "WebhookOriginApproved",
    data: { applicationId, origin: new URL(url).origin },
  });
  const grant = { scopes, branchIds, approvedBy: null, rateLimitPerMinute: 100 };
  await append(`installation-${installationId}`, {
    type: "InstallationApproved",
    data: { installationId, applicationId, clinicId, ...grant },
  });
  return { applicationId, clinicId, installationId };
}

async function requestAppointment(
  append: World["append"],
  clinicId: string,
  options: { environment?: Environment; branchId?: string },
): Promise<RequestedAppointment> {
  const appointmentId = randomUUID();
  const { environment = "production", branchId = randomUUID() } = options;
  const references = { animalId: randomUUID(), customerId: randomUUID(), applicationId: null, requestHash: null };
  const schedule = { scheduledAt: "2030-05-01T09:00:00.000Z", durationMinutes: 30 };
  const otherFields = { reason: null, notes: "not for partners", sandboxGeneration: 0 };
  const eventId = await append(
    `appointment-${appointmentId}`,
    {
      type: "AppointmentRequested",
      data: { appointmentId, clinicId, branchId, ...references, ...schedule, ...otherFields },
    },
    { environment, clinicId },
  );
  return { appointmentId, eventId };
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
