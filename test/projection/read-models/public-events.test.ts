import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type pg from "pg";
import { readCheckpoint } from "../../../projection/checkpoints/checkpoint.ts";
import { applyBatch } from "../../../projection/engine/apply-batch.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { type Appointment, appointmentAggregate } from "../../../shared/domain/appointment/appointment.ts";
import { requestDefaults } from "../../../shared/domain/events/appointment.ts";
import { type CatalogEvent, categories } from "../../../shared/domain/events/catalog.ts";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import { deriveSandboxClinicId } from "../../../shared/domain/events/ids.ts";
import type { Actor } from "../../../shared/domain/events/metadata.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { getPublicType } from "../../../shared/partner-api/public-events.ts";
import { toPartnerAppointment } from "../../../shared/partner-api/records.ts";
import {
  eventBody,
  PUBLIC_EVENT_JSON_SQL,
  publicEventRow,
  renderPublicEvent,
  type WebhookBody,
} from "../../../shared/partner-api/webhook-body.ts";
import { createPool, inTransaction } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { useResource } from "../../support/resources.ts";
import { createStoredMetadata, findStream } from "../../support/stored-metadata.ts";

const clinicId = randomUUID();
const applicationId = randomUUID();
const applicationEndpointId = randomUUID();

/** Returns the clinic of an event; null for an event about the application's endpoint. */
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
  const allocation = {
    ...{ assignmentId: randomUUID(), resourceId: randomUUID() },
    ...{ allocationStart: "2026-05-06T08:00:00.000Z", allocationEnd: "2026-05-06T08:45:00.000Z" },
  };
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
    { type: "ResourceAllocated", data: { ...appointment, ...allocation } },
    { type: "ResourceReleased", data: { ...appointment, assignmentId: allocation.assignmentId } },
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

interface HistoryOptions {
  actorType?: Actor["type"];
  environment?: Environment;
}

/** Converts events to recorded events, one second apart. */
function recordHistory(events: readonly CatalogEvent[], options: HistoryOptions = {}): RecordedEvent[] {
  const revisions = new Map<string, bigint>();
  return events.map((event, index): RecordedEvent => {
    const stream = findStream(event) ?? "";
    const revision = (revisions.get(stream) ?? -1n) + 1n;
    revisions.set(stream, revision);
    const occurredAt = `2026-04-01T08:00:${String(index).padStart(2, "0")}.120Z`;
    const storedMetadata = createStoredMetadata(event);
    const metadata = {
      ...{ ...storedMetadata, clinicId: findClinicId(event), environment: options.environment ?? "production" },
      actor: { ...storedMetadata.actor, ...(options.actorType && { type: options.actorType }) },
      occurredAt,
    };
    const storedEvent = parseStoredEvent({ ...JSON.parse(JSON.stringify(event)), streamId: stream, metadata });
    return { ...storedEvent, id: randomUUID(), stream, revision, position: BigInt(index + 1) };
  });
}

const foldAppointment = (events: readonly RecordedEvent[]) =>
  events.reduce<Appointment | undefined>(
    (state, event) => appointmentAggregate.evolve(state, event as never),
    undefined,
  );

describe("the rows of public events", () => {
  const database = useResource(createDatabaseWithReadModels);
  let pool: pg.Pool;

  before(async () => {
    pool = createPool({
      ...{ url: database.urls.projection, applicationName: "test", size: 1, statementTimeoutMs: 30_000 },
      logger: createLogger("test", "silent"),
    });
  });
  after(async () => {
    await pool.end();
  });

  /** Applies events to empty read models. @returns the bodies of the resulting public events */
  const renderBodies = (history: readonly RecordedEvent[]): Promise<WebhookBody[]> =>
    inTransaction(pool, async (client) => {
      for (const { table } of readModels) await client.query(`DELETE FROM ${READ_MODEL_SCHEMA}.${table}`);
      const { position: fromPosition } = await readCheckpoint(client, READ_MODEL_SCHEMA);
      const newCheckpoint = { position: BigInt(history.length), eventId: history.at(-1)!.id };
      const tables = { client, schema: READ_MODEL_SCHEMA, models: readModels };
      await applyBatch(tables, { events: history, fromPosition, newCheckpoint });
      const { rows } = await client.query(
        `SELECT json_build_object(${PUBLIC_EVENT_JSON_SQL}) AS row, environment
           FROM ${READ_MODEL_SCHEMA}.public_event e WHERE type IS NOT NULL ORDER BY position`,
      );
      return rows.map(({ row, environment }) => renderPublicEvent(publicEventRow.parse(row), environment));
    });
  const renderChange = async (events: CatalogEvent[], options?: HistoryOptions) => {
    const { data } = (await renderBodies(recordHistory(events, options))).at(-1)!;
    return "change" in data ? data.change : undefined;
  };
  const [requested, rescheduled] = listEvents() as [CatalogEvent, CatalogEvent];
  const cancelled = { type: "AppointmentCancelled", data: { ...rescheduled.data, reason: "Ana Kos is ill" } };

  it("give a valid body for every public type, with the state after the event even if later events follow", async () => {
    const history = recordHistory(listEvents());
    const publicEvents = history.filter(({ type }) => getPublicType(type));
    const bodies = await renderBodies(history);
    expect(bodies.map(({ id, type, createdAt }) => [id, type, createdAt])).to.deep.equal(
      publicEvents.map(({ id, type, metadata }) => [id, getPublicType(type), metadata.occurredAt]),
    );
    for (const body of bodies) if (body.clinicId !== null) eventBody.parse(body);
    const types = categories.flatMap(({ events }) => Object.keys(events)) as CatalogEvent["type"][];
    expect(new Set(publicEvents.map(({ type }) => type))).to.deep.equal(
      new Set(types.filter((type) => getPublicType(type))),
    );
    for (const [index, { stream, revision }] of publicEvents.entries()) {
      if (!stream.startsWith("appointment-")) continue;
      const past = history.filter((event) => event.stream === stream && event.revision <= revision);
      const { notes: _, ...record } = toPartnerAppointment(foldAppointment(past)!, revision);
      expect(bodies[index]!.data).to.have.property("appointment").that.deep.equals(record);
    }
  });

  it("an operational event names the endpoint with its current URL, and disabling a revoked endpoint gives none", async () => {
    const endpointId = randomUUID();
    const disabled: CatalogEvent = { type: "WebhookEndpointDisabled", data: { endpointId, reason: "no_success" } };
    const [registered] = listEvents().filter(({ type }) => type === "WebhookEndpointRegistered");
    const register = { ...registered!, data: { ...registered!.data, endpointId, clinicId } } as CatalogEvent;
    const change: CatalogEvent = { type: "WebhookEndpointChanged", data: { endpointId, url: "https://new.example/" } };
    const [body] = await renderBodies(recordHistory([register, change, disabled]));
    expect(body?.data).to.deep.equal({
      endpoint: { id: endpointId, url: "https://new.example/" },
      reason: "no_success",
    });
    const revoked: CatalogEvent = { type: "WebhookEndpointRevoked", data: { endpointId } };
    expect(await renderBodies(recordHistory([register, revoked, disabled]))).to.deep.equal([]);
  });

  it("contain neither the texts nor the customer of an appointment", async () => {
    for (const events of [[requested], [requested, rescheduled], [requested, cancelled as CatalogEvent]]) {
      const [body] = (await renderBodies(recordHistory(events))).slice(-1);
      expect(body?.data).to.have.nested.property("appointment.id");
      expect(JSON.stringify(body)).not.to.match(/Call Ana|Storm|is ill|customer/i);
    }
  });

  it("contain the changed fields with their old and new values", async () => {
    expect(await renderChange([requested])).to.equal(undefined);
    expect((await renderChange([requested, rescheduled]))?.fields).to.deep.equal({
      scheduledAt: { from: "2026-05-04T08:00:00.000Z", to: "2026-05-05T08:00:00.000Z" },
      durationMinutes: { from: 30, to: 45 },
    });
    expect((await renderChange([requested, rescheduled, cancelled as CatalogEvent]))?.fields).to.deep.equal({
      status: { from: "requested", to: "cancelled" },
    });
  });

  it("show the resources of a booking, and the changes that the staff makes, but no consequence of another change", async () => {
    const [id, resourceId, assignmentId] = [randomUUID(), randomUUID(), randomUUID()];
    const place = { assignmentId, resourceId };
    const data = { ...requested.data, appointmentId: id, place, isConfirmed: true };
    const booked = { type: "AppointmentRequested", data } as CatalogEvent;
    const resource = {
      id: resourceId,
      allocationStart: "2026-05-04T08:00:00.000Z",
      allocationEnd: "2026-05-04T08:30:00.000Z",
    };
    const [body] = await renderBodies(recordHistory([booked]));
    expect(body?.data).to.deep.nested.include({
      "appointment.status": "confirmed",
      "appointment.resources": [resource],
    });
    const released = (isConsequence: boolean): CatalogEvent => {
      return { type: "ResourceReleased", data: { appointmentId: id, assignmentId, isConsequence } };
    };
    expect((await renderChange([booked, released(false)]))?.fields).to.deep.equal({
      resources: { from: [resource], to: [] },
    });
    const cancelledBooking: CatalogEvent = { type: "AppointmentCancelled", data: { appointmentId: id, reason: null } };
    const bodies = await renderBodies(recordHistory([booked, released(true), cancelledBooking]));
    expect(bodies).to.have.length(2);
    expect(bodies[1]?.data).to.deep.nested.include({ "appointment.status": "cancelled", "appointment.resources": [] });
  });

  for (const [actorType, environment, causedBy] of [
    ["user", "production", "clinic"],
    ["operator", "production", "clinic"],
    ["application", "production", "application"],
    ["application", "sandbox", "clinic"],
    ["system", "production", "system"],
  ] as const)
    it(`a change by the actor type ${actorType} in ${environment} is caused by the ${causedBy}`, async () => {
      expect((await renderChange([requested, rescheduled], { actorType, environment }))?.causedBy).to.equal(causedBy);
    });
});
