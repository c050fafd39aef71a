import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { applyBatch } from "../../../projection/engine/apply-batch.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { foldAppointment } from "../../../shared/domain/appointment/appointment.ts";
import { requestDefaults } from "../../../shared/domain/events/appointment.ts";
import { type CatalogEvent, categories } from "../../../shared/domain/events/catalog.ts";
import { deriveSandboxClinicId } from "../../../shared/domain/events/ids.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { BEFORE_FIRST_EVENT } from "../../../shared/eventstore/read-log.ts";
import {
  feedEvent,
  PUBLIC_EVENT_JSON_SQL,
  publicEventRow,
  renderPublicEvent,
  toAccessBody,
} from "../../../shared/partner-api/feed-event.ts";
import { getPublicType } from "../../../shared/partner-api/public-event.ts";
import { toOperationalEvent, toTestBody, toWebhookBody } from "../../../shared/partner-api/webhook-body.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { createStoredMetadata, findStream } from "../../support/stored-metadata.ts";

const clinicId = randomUUID();
const applicationId = randomUUID();
const applicationEndpointId = randomUUID();

/** The clinic of an event; null for the application's endpoint. */
function findClinicId({ data }: CatalogEvent): string | null {
  if ("clinicId" in data) return data.clinicId;
  return "endpointId" in data && data.endpointId === applicationEndpointId ? null : clinicId;
}

/** Lists events of every public type, with several changes of the same object. */
function listEvents(): CatalogEvent[] {
  const [appointmentId, installationId, animalId, endpointId, branchId] = Array.from({ length: 5 }, () => randomUUID());
  const details = {
    ...requestDefaults,
    appointmentId: appointmentId!,
    clinicId,
    branchId: branchId!,
    animalId: animalId!,
  };
  const appointment = { appointmentId: appointmentId! };
  const endpoint = { endpointId: endpointId! };
  const installation = { installationId: installationId!, applicationId, clinicId };
  const grant = { scopes: ["webhooks:write" as const], branchIds: null, animalAccess: "all" as const };
  const link = { animalId: animalId!, clinicId, applicationId, linkId: randomUUID() };
  const move = (scheduledAt: string): CatalogEvent => ({
    type: "AppointmentRescheduled",
    data: { ...appointment, scheduledAt, durationMinutes: 45, reason: "Storm" },
  });
  const register = (clinic: string | null, id: string): CatalogEvent[] => [
    {
      type: "WebhookEndpointRegistered",
      data: {
        ...{ endpointId: id, applicationId, clinicId: clinic, environment: "production", url: "https://a.example/x?" },
        ...{ events: ["appointment.created"], secretId: randomUUID(), encryptedSecret: "secret" },
      },
    },
    { type: "WebhookEndpointTested", data: { endpointId: id, applicationId, testId: randomUUID() } },
  ];
  return [
    { type: "AppointmentRequested", data: { ...details, scheduledAt: "2026-05-04T08:00:00.000Z", notes: "Call Ana" } },
    move("2026-05-05T08:00:00.000Z"),
    move("2026-05-06T08:00:00.000Z"),
    { type: "AppointmentConfirmed", data: appointment },
    { type: "AppointmentCheckedIn", data: appointment },
    { type: "AppointmentPutInWaiting", data: appointment },
    { type: "ConsultationStarted", data: appointment },
    { type: "AppointmentCompleted", data: appointment },
    ...(["AppointmentCancelled", "AppointmentMarkedNoShow"] as const).flatMap((type): CatalogEvent[] => {
      const id = randomUUID();
      const data = { ...details, appointmentId: id, animalId: null, scheduledAt: "2026-05-04T08:00:00.000Z" };
      return [
        { type: "AppointmentRequested", data },
        { type, data: { appointmentId: id, reason: null } } as CatalogEvent,
      ];
    }),
    { type: "InstallationRequested", data: { ...installation, scopes: grant.scopes } },
    { type: "InstallationApproved", data: { ...installation, ...grant, approvedBy: null, rateLimitPerMinute: 60 } },
    { type: "InstallationNarrowed", data: { installationId: installationId!, ...grant, animalAccess: "linked" } },
    {
      type: "AnimalLinked",
      data: { ...link, covers: "appointments_read", customerId: randomUUID(), sandboxGeneration: 0 },
    },
    { type: "AnimalLinkWithdrawn", data: { ...link, requestedBy: "owner" } },
    ...register(clinicId, endpointId!),
    ...register(null, applicationEndpointId),
    {
      type: "WebhookEndpointFailureReported",
      data: { ...endpoint, since: "2026-05-04T08:00:00.000Z", failedAttempts: 3 },
    },
    { type: "WebhookEndpointChanged", data: { ...endpoint, url: "https://b.example/" } },
    {
      type: "WebhookSecretExpiryReported",
      data: { ...endpoint, secretId: randomUUID(), expiresAt: "2026-05-04T08:00:00.000Z" },
    },
    { type: "WebhookEndpointDisabled", data: { ...endpoint, reason: "gone" } },
    { type: "WebhookEndpointChanged", data: { ...endpoint, url: "https://c.example/" } },
    { type: "InstallationRevoked", data: { installationId: installationId!, reason: null } },
    {
      type: "SandboxReset",
      data: {
        applicationId,
        clinicId: deriveSandboxClinicId(applicationId),
        generation: 2,
        day: "2026-05-04",
        events: [],
      },
    },
  ];
}

/** Creates the body of a stream's last event, as the relay does. */
function createBodyFromLog(history: readonly RecordedEvent[]): unknown {
  const event = history.at(-1)!;
  if (event.type === "WebhookEndpointTested") return toTestBody(event);
  if (event.stream.startsWith("webhookEndpoint-")) return toOperationalEvent(history as never)?.body;
  if (!event.stream.startsWith("appointment-")) return toAccessBody(event);
  return toWebhookBody(foldAppointment(history.slice(0, -1) as never), event as never);
}

describe("the rows of public events", () => {
  it("give the same bytes as the event log, for every public type, also if later events are in the same batch", async () => {
    const database = await createDatabaseWithReadModels();
    const pool = createPool({
      ...{ url: database.urls.projection, applicationName: "test", size: 1, statementTimeoutMs: 30_000 },
      logger: createLogger("test", "silent"),
    });
    const revisions = new Map<string, bigint>();
    const history = listEvents().map((event, index): RecordedEvent => {
      const stream = findStream(event) ?? "";
      const revision = (revisions.get(stream) ?? -1n) + 1n;
      revisions.set(stream, revision);
      const occurredAt = `2026-04-01T08:00:${String(index).padStart(2, "0")}.120Z`;
      const metadata = {
        ...createStoredMetadata(event),
        clinicId: findClinicId(event),
        environment: "production",
        occurredAt,
      };
      const storedEvent = parseStoredEvent({ ...JSON.parse(JSON.stringify(event)), streamId: stream, metadata });
      return { ...storedEvent, id: randomUUID(), stream, revision, position: BigInt(index + 1) };
    });
    const listStream = (stream: string, maxRevision = 1_000n) =>
      history.filter((event) => event.stream === stream && event.revision <= maxRevision);
    const client = await pool.connect();
    try {
      const checkpoint = { position: BigInt(history.length), eventId: history.at(-1)!.id };
      await applyBatch(client, READ_MODEL_SCHEMA, readModels, history, BEFORE_FIRST_EVENT, checkpoint);
      const { rows } = await client.query(
        `SELECT json_build_object(${PUBLIC_EVENT_JSON_SQL}) AS row FROM ${READ_MODEL_SCHEMA}.public_event e
          WHERE type IS NOT NULL ORDER BY position`,
      );
      const bodies = rows.map(({ row }) => renderPublicEvent(publicEventRow.parse(row), "production"));
      const publicEvents = history.filter(({ type }) => getPublicType(type));
      const expected = publicEvents.map((event) => createBodyFromLog(listStream(event.stream, event.revision)));
      expect(bodies.map((body) => JSON.stringify(body))).to.deep.equal(expected.map((body) => JSON.stringify(body)));
      for (const body of bodies) if (body.clinicId !== null) feedEvent.parse(body);
      const types = categories.flatMap(({ events }) => Object.keys(events)) as CatalogEvent["type"][];
      expect(new Set(publicEvents.map(({ type }) => type))).to.deep.equal(
        new Set(types.filter((type) => getPublicType(type))),
      );
    } finally {
      client.release();
      await pool.end();
      await database.drop();
    }
  });
});
