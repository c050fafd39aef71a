import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { z } from "zod";
import {
  allocateResource,
  cancelAppointment,
  requestAppointment,
} from "../../command/operations/appointment-operations.ts";
import { addResource, setRule } from "../../command/operations/catalog-operations.ts";
import { applyBatch } from "../../projection/engine/apply-batch.ts";
import type { AnyReadModel, Row } from "../../projection/engine/read-model.ts";
import { upsertRows } from "../../projection/engine/rows.ts";
import { withConnection } from "../../projection/engine/write-items.ts";
import { readQuarantinedStreams } from "../../projection/quarantine/quarantined-streams.ts";
import { readModels } from "../../projection/read-models/all.ts";
import { ProjectionError } from "../../projection/roles/role.ts";
import { type CatalogEvent, categories } from "../../shared/domain/events/catalog.ts";
import type { Category } from "../../shared/domain/events/category.ts";
import { deriveSandboxClinicId } from "../../shared/domain/events/ids.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { EventSchemaError, parseStoredEvent } from "../../shared/domain/events/stored-event.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createIds } from "../support/clinics.ts";
import { createSampleData } from "../support/extreme-values.ts";
import { createClinic, createTestOperatorContext } from "../support/partner.ts";
import { useResource } from "../support/resources.ts";
import { createStoredMetadata, findStream } from "../support/stored-metadata.ts";
import { createEngineWorld } from "./engine-world.ts";

/** Values that all handlers accept, by type of the column. */
const COLUMN_VALUES: Record<string, unknown> = {
  ...{ uuid: "00000000-0000-4000-8000-000000000000", text: "https://a.example", boolean: false },
  ...{ bigint: "0", numeric: 0, date: "2026-01-01", time: "00:00:00", timestamptz: "2026-01-01T00:00:00.000Z" },
  ...{ json: [], jsonb: [] },
};

describe("an event that concerns two clinics", () => {
  const world = useResource(createEngineWorld, "test");

  it("an event of every type that would read or change a row of another clinic is refused, and changes nothing", async () => {
    const typesWithoutClinic: string[] = [];
    for (const { events } of categories as readonly Category[])
      for (const [type, schema] of Object.entries(events)) {
        const event = createEvent({ type, data: createSampleData(schema as z.ZodObject) });
        const models = readModels.filter(({ on, columns }) => on[event.type] && "clinic_id" in columns);
        if (models.length === 0) typesWithoutClinic.push(type);
        // If the key contains the clinic, an event cannot name a row of another clinic.
        for (const model of models.filter(({ primaryKey }) => !primaryKey.includes("clinic_id")))
          await expectRefusal(model, event);
      }
    expect(typesWithoutClinic).to.deep.equal([
      // A portal user may select any clinic.
      ...["ClinicSelected", "PortalUserDataErased", "PortalUserSummarized"],
      // No read model has rows of these events, or of these objects.
      ...["AnimalLinkCodeCreated", "AnimalConsentSummarized", "AnimalLinkCodeAssigned"],
      // No read model has rows of these events, or of these objects.
      ...["HoldReservationAbandoned", "PlaceReserved", "PlaceReleased"],
      // These objects belong to no clinic.
      ...["ApplicationRegistered", "CredentialIssued", "CredentialRevoked"],
      ...["WebhookOriginApproved", "WebhookOriginWithdrawn", "ApplicationRevoked"],
      // No read model has rows of these events, or of these objects.
      ...["WebhookEndpointSummarized", "WebhookEndpointPlaceTaken"],
      // These objects belong to no clinic.
      ...[
        "OperatorRegistered",
        "OperatorRevoked",
        "AuditorRegistered",
        "AuditorRevoked",
        "AuditorDataErased",
        "AuditAccessed",
        "TreeHeadPublished",
      ],
      "EventTypeConfirmed",
    ]);
  });

  function createEvent(event: { type: string; data: object }): RecordedEvent {
    const stream = findStream(event) ?? "";
    const { clinicId = randomUUID() } = event.data as { clinicId?: string };
    const metadata = { ...createStoredMetadata(), clinicId };
    const validEvent = parseStoredEvent({ ...event, streamId: stream, metadata });
    return { ...validEvent, id: randomUUID(), stream, revision: 0n, position: 1n };
  }

  /** Inserts a row of another clinic with the event's key. Checks that applying the event is refused. */
  async function expectRefusal(model: AnyReadModel, event: RecordedEvent): Promise<void> {
    const { table, columns, primaryKey } = model;
    const row: Row = Object.fromEntries(Object.entries(columns).map(([name, type]) => [name, COLUMN_VALUES[type]]));
    row.clinic_id = randomUUID();
    for (const [index, name] of primaryKey.entries()) row[name] = model.key(event)?.[index];
    const readRow = async () => (await world.pool.query(`SELECT * FROM ${READ_MODEL_SCHEMA}.${table}`)).rows;
    await withConnection(world.pool, async (connection) => {
      const tables = { client: connection, schema: READ_MODEL_SCHEMA, models: readModels };
      await upsertRows(tables, model, [row]);
      const rowsBefore = await readRow();
      const newCheckpoint = { position: 1n, eventId: event.id };
      const error = await applyBatch(tables, { events: [event], fromPosition: -1n, newCheckpoint }).catch(
        (error: Error) => error,
      );
      expect(error, `${event.type} in ${table}`).to.be.instanceOf(ProjectionError);
      expect((error as ProjectionError).reason).to.match(/: its row belongs to another clinic$/);
      expect(await readRow()).to.deep.equal(rowsBefore);
      await connection.query(`TRUNCATE ${READ_MODEL_SCHEMA}.${table}`);
    });
  }

  it("projectors quarantine the stream of an event that names an object of another clinic, whose rows do not change", async () => {
    world.startProjectors();
    const [own, other] = [await createOccupiedClinic(), await createOccupiedClinic()];
    await world.waitFor((await world.log.readLast(`appointment-${other.appointmentId}`))?.position ?? 0n);
    const rowsBefore = await listRows(own.clinicId);
    const streams: string[] = [];
    const append = async (stream: string, clinicId: string, event: CatalogEvent) => {
      streams.push(stream);
      await world.waitFor(await world.append(stream, { ...event, metadata: { ...createStoredMetadata(), clinicId } }));
    };
    const confirmed: CatalogEvent = { type: "AppointmentConfirmed", data: { appointmentId: own.appointmentId } };
    await append(`appointment-${randomUUID()}`, other.clinicId, confirmed);
    await append(`appointment-${own.appointmentId}`, other.clinicId, confirmed);
    const released = { appointmentId: other.appointmentId, assignmentId: own.assignmentId };
    await append(`appointment-${other.appointmentId}`, other.clinicId, { type: "ResourceReleased", data: released });
    const removed = { resourceId: other.resourceId, ruleId: own.ruleId };
    await append(`resource-${other.resourceId}`, other.clinicId, { type: "AvailabilityRuleRemoved", data: removed });
    const opened = { clinicId: other.clinicId, branchId: own.branchId, name: "Taken", city: null, isMain: false };
    await append(`clinic-${other.clinicId}`, other.clinicId, { type: "BranchOpened", data: opened });
    const applicationId = randomUUID();
    const sandboxId = deriveSandboxClinicId(applicationId);
    const data = { customerId: own.customerId, fullName: "Taken", phone: null, email: null, city: null };
    const events = [{ type: "CustomerDetailsChanged" as const, data, at: "2026-03-10T00:00:00.000Z" }];
    const reset = { applicationId, clinicId: sandboxId, generation: 1, day: "2026-03-10", events };
    await append(`sandbox-${applicationId}`, sandboxId, { type: "SandboxReset", data: reset });

    const quarantinedStreams = await readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA);
    expect([...quarantinedStreams.keys()].sort()).to.deep.equal(streams.sort());
    expect(await listRows(own.clinicId)).to.deep.equal(rowsBefore);
    expect((await world.verify()).differences).to.deep.equal([]);
  });

  it("commands refuse an event that belongs to another clinic than its appointment", async () => {
    const { clinicId, appointmentId } = await createOccupiedClinic();
    const stream = `appointment-${appointmentId}`;
    const confirmed: CatalogEvent = { type: "AppointmentConfirmed", data: { appointmentId } };
    const metadata = { ...createStoredMetadata(), clinicId: randomUUID(), environment: "production" as const };
    await world.append(stream, { ...confirmed, metadata });
    const command = cancelAppointment(
      world.log,
      { clinicId, appointmentId, reason: null },
      createTestOperatorContext(),
    );
    expect(await command.catch((error: Error) => error)).to.be.instanceOf(EventSchemaError);
  });

  async function createOccupiedClinic() {
    const { log } = world;
    const { clinicId, branchId, animalId, customerId } = await createClinic(log);
    const [resourceId, ruleId, appointmentId, assignmentId] = createIds();
    const context = createTestOperatorContext();
    const resource = { resourceType: "room", name: "Room", capacity: 1, timezone: null, metadata: {} };
    await addResource(log, { resourceId, clinicId, branchId, ...resource }, context);
    const rule = { ruleId, weekday: 1, startsAt: "09:00:00", endsAt: "17:00:00", validFrom: null, validUntil: null };
    await setRule(log, { resourceId, clinicId, ...rule, ruleType: "open" }, context);
    const request = { appointmentId, clinicId, branchId, animalId, scheduledAt: "2050-03-12T10:00:00.000Z" };
    await requestAppointment(log, request, context);
    const times = { allocationStart: "2050-03-12T10:00:00.000Z", allocationEnd: "2050-03-12T10:30:00.000Z" };
    await allocateResource(log, { appointmentId, clinicId, assignmentId, resourceId, ...times }, context);
    return { clinicId, branchId, customerId, resourceId, ruleId, appointmentId, assignmentId };
  }

  const listRows = (clinicId: string) =>
    Promise.all(
      ["appointment", "assignment", "availability_rule", "branch", "customer", "resource"].map(async (table) => {
        const statement = `SELECT * FROM ${READ_MODEL_SCHEMA}.${table} WHERE clinic_id = $1 ORDER BY 1`;
        const { rows } = await world.pool.query(statement, [clinicId]);
        expect(rows, table).to.not.be.empty;
        return rows;
      }),
    );
});
