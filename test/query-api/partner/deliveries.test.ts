import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { listWebhookDeliveries } from "../../../query-api/partner/webhook-deliveries.ts";
import { deliveredEventType, deliveredEventTypes } from "../../../shared/domain/events/partner.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { deriveWebhookDeliveryId } from "../../../shared/webhooks/delivery-id.ts";
import { createDeliveryQueries, fillDeliveries } from "../../bench/delivery-history.ts";
import { appointmentRequested, createIds } from "../../support/clinics.ts";
import { type DeliveryRow, insertAttempts, insertDelivery as insertDeliveryRow } from "../../support/deliveries.ts";
import { endpointRegistered, installationApproved } from "../../support/partner-events.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import { createCaller, setUpCaller } from "./caller.ts";

const STATUSES = ["pending", "delivered", "failed", "skipped", "cancelled"] as const;

describe("the list of deliveries", () => {
  const api = setUpQueryApi();
  const caller = setUpCaller(api);
  let endpointId: string;

  beforeEach(async () => {
    endpointId = randomUUID();
    await api.given(endpointRegistered(caller.application, caller.clinic.clinicId, endpointId));
  });

  const insertDelivery = (row: Partial<DeliveryRow>): Promise<string> =>
    insertDeliveryRow(api.database.admin, {
      endpointId,
      clinicId: caller.clinic.clinicId,
      branchId: row.type?.startsWith("endpoint.") ? null : caller.clinic.branchId,
      applicationId: caller.application.applicationId,
      status: "delivered",
      ...row,
    });

  const readList = (query: string) =>
    caller.readBody("listWebhookDeliveries", `/webhook-endpoints/${endpointId}/deliveries?${query}`);
  const listIds = async (query: string): Promise<string[]> =>
    (await readList(query)).deliveries.map(({ id }: { id: string }) => id);
  const toTime = (minute: number) => toInstant(Date.UTC(2026, 2, 1, 8, minute));

  it("a delivery has all its attempts, the latest 50 of them, and the start of an attempt updates it", async () => {
    const { admin } = api.database;
    const createdAt = toTime(0);
    const [appointmentId] = createIds();
    const id = await insertDelivery({ createdAt, status: "failed", appointmentId });
    await insertAttempts(admin, id, 2);
    const readDelivery = async () => {
      const { deliveries, page } = await readList("");
      expect(page).to.deep.equal({ limit: 50, returned: 1, nextCursor: null });
      return deliveries[0];
    };
    const { eventId, ...delivery } = await readDelivery();
    expect(eventId).to.be.a("string");
    const attempt = { startedAt: createdAt, durationMs: 12, statusCode: 500, error: null, answer: "oops" };
    const attempts = [1, 2].map((number) => ({ number, ...attempt }));
    const fields = { type: "appointment.created", status: "failed", nextAttemptAt: null, updatedAt: createdAt };
    expect(delivery).to.deep.equal({ id, appointmentId, ...fields, createdAt, attempts });
    const sql = `INSERT INTO webhooks.attempt (delivery_id, number, started_at)
      SELECT $1, n, '2026-03-01T08:00:05Z' FROM generate_series(3, 60) n`;
    await admin.query(sql, [id]);
    const updated = await readDelivery();
    expect(updated.updatedAt).to.equal("2026-03-01T08:00:05.000Z");
    const numbers = updated.attempts.map(({ number }: { number: number }) => number);
    expect(numbers).to.deep.equal(Array.from({ length: 50 }, (_, index) => index + 11));
  });

  it("deliveries about animals are visible to an application with linked access only while the animals are linked", async () => {
    const { clinicId } = caller.clinic;
    const { applicationId } = caller.application;
    const [animalId, otherAnimalId, customerId, linkId] = createIds();
    const deliveryId = await insertDelivery({ animalId });
    await insertDelivery({ animalId: otherAnimalId });
    await insertDelivery({});
    const testDeliveryId = await insertDelivery({ branchId: null });
    expect(await listIds("")).to.have.length(4);
    await api.given(installationApproved(caller.application, clinicId, { animalAccess: "linked" }));
    expect(await listIds("")).to.deep.equal([testDeliveryId]);
    const path = `/webhook-endpoints/${endpointId}/deliveries/${deliveryId}`;
    expect(await caller.readRefusal(path)).to.equal("404 webhook_delivery_not_found");
    const link = { animalId, clinicId, applicationId, linkId };
    const consent = { ...link, covers: "appointments_read" as const, customerId, sandboxGeneration: 0 };
    await api.given({ type: "AnimalLinked", data: consent });
    expect(await listIds("")).to.have.members([deliveryId, testDeliveryId]);
    await api.given({ type: "AnimalLinkWithdrawn", data: { ...link, requestedBy: "owner" } });
    expect(await listIds("")).to.deep.equal([testDeliveryId]);
    expect(await caller.readRefusal(path)).to.equal("404 webhook_delivery_not_found");
  });

  it("the filters work for each status, type and pair of both, newest first", async () => {
    const rows: { id: string; status: string; type: string }[] = [];
    for (const status of STATUSES)
      for (const type of deliveredEventTypes.clinic)
        rows.unshift({ status, type, id: await insertDelivery({ status, type, createdAt: toTime(rows.length) }) });
    const expectList = async (filter: Partial<(typeof rows)[number]>) => {
      const matching = rows.filter((row) =>
        Object.entries(filter).every(([name, value]) => row[name as "id"] === value),
      );
      const query = new URLSearchParams(filter).toString();
      expect(await listIds(`limit=100&${query}`), query).to.deep.equal(matching.map(({ id }) => id));
    };
    await expectList({});
    for (const status of STATUSES) await expectList({ status });
    for (const type of deliveredEventTypes.clinic) {
      await expectList({ type });
      for (const status of STATUSES) await expectList({ status, type });
    }
  });

  it("a list with a time range includes its start and excludes its end", async () => {
    const ids = [];
    for (const minute of [1, 2, 3, 4]) ids.unshift(await insertDelivery({ createdAt: toTime(minute) }));
    expect(await listIds(`from=${toTime(2)}`)).to.deep.equal(ids.slice(0, 3));
    expect(await listIds(`to=${toTime(3)}`)).to.deep.equal(ids.slice(2));
    const localFrom = "2026-03-01T11:02:00+03:00";
    for (const from of [localFrom, encodeURIComponent(localFrom), localFrom.replaceAll(":", "%3A")])
      expect(await listIds(`from=${from}&to=${toTime(4)}`)).to.deep.equal(ids.slice(1, 3));
    expect(await listIds(`from=${toTime(4)}&to=${toTime(1)}`)).to.deep.equal([]);
  });

  const readPageIds = (query: string) =>
    caller.readPageIds("listWebhookDeliveries", `/webhook-endpoints/${endpointId}/deliveries?${query}`, "deliveries");

  it("the pages of a list contain each matching delivery once, also if their creation times are nearly or exactly equal", async () => {
    const ids: string[] = [];
    const otherIds: string[] = [];
    for (const micros of [1, 1, 1, 2, 2]) {
      const createdAt = `2026-03-01T08:00:00.00000${micros}Z`;
      ids.push(await insertDelivery({ status: "failed", createdAt }));
      otherIds.push(await insertDelivery({ createdAt }));
      ids.push(await insertDelivery({ status: "failed", type: "appointment.updated", createdAt }));
    }
    expect((await readPageIds("limit=4")).flat()).to.have.members([...ids, ...otherIds]);
    const pages = await readPageIds("status=failed&limit=5");
    expect(pages.flat()).to.have.members(ids);
    expect(pages.map(({ length }) => length)).to.deep.equal([5, 5]);
  });

  const insertDelivered = (count: number, branchId: string) =>
    api.database.admin.query(
      `INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, branch_id, application_id, environment,
         event_id, event_type, event_position, appointment_id, status, cause_id, correlation_id, created_at, updated_at)
       SELECT gen_random_uuid(), $1, $2, $3, $4, 'production', $2, 'appointment.updated',
              0, gen_random_uuid(), 'delivered', $2, $2,
              '2026-03-02'::timestamptz + n * interval '1 second', now() FROM generate_series(1, $5::integer) n`,
      [endpointId, caller.clinic.clinicId, branchId, caller.application.applicationId, count],
    );

  it("pending deliveries are found among many that are pending, and among many that are delivered", async () => {
    const insertMany = (status: string, count: number) =>
      api.database.admin.query(
        `WITH added AS (
           INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, application_id, environment, event_id,
             event_type, event_position, appointment_id, status, cause_id, correlation_id, created_at, updated_at)
           SELECT gen_random_uuid(), $1, $2, $3, 'production', $2, 'appointment.created', 0, gen_random_uuid(), $4, $2, $2,
                  '2026-03-02'::timestamptz + n * interval '1 second', now() FROM generate_series(1, $5::integer) n
           RETURNING delivery_id, status)
         INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, event_id, event_position, next_attempt_at,
           failed_attempt_count, attempt_count) SELECT delivery_id, $1, $2, 0, now(), 0, 0 FROM added WHERE status = 'pending'`,
        [endpointId, caller.clinic.clinicId, caller.application.applicationId, status, count],
      );
    const firstId = await insertDelivery({ status: "pending" });
    await insertMany("delivered", 300);
    expect(await listIds("status=pending")).to.deep.equal([firstId]);
    await insertMany("pending", 5_001);
    const { deliveries, page } = await readList("status=pending&limit=100");
    expect(new Set(deliveries.map(({ status }: { status: string }) => status))).to.deep.equal(new Set(["pending"]));
    expect(page.returned).to.equal(100);
    expect(await listIds(`status=pending&to=${toTime(1)}`)).to.deep.equal([firstId]);
  });

  it("an installation with branches lists their deliveries and tests, if they are few and if they are many", async () => {
    const { clinicId, branchId } = caller.clinic;
    const ids: string[] = [];
    for (let minute = 0; minute < 6; minute += 1) {
      await insertDelivery({ branchId: randomUUID(), createdAt: toTime(minute) });
      const type = minute % 2 === 0 ? "endpoint.test" : "appointment.created";
      const status = minute < 3 ? "failed" : "delivered";
      ids.unshift(await insertDelivery({ type, status, createdAt: toTime(minute) }));
    }
    await api.given(installationApproved(caller.application, clinicId, { branchIds: [branchId, randomUUID()] }));
    const expectLists = async () => {
      expect(await listIds(`to=${toTime(30)}`)).to.deep.equal(ids);
      expect(await listIds("status=failed")).to.deep.equal(ids.slice(3));
      expect(await listIds("type=endpoint.test")).to.deep.equal([ids[1], ids[3], ids[5]]);
      expect((await readPageIds(`limit=2&to=${toTime(30)}`)).flat()).to.deep.equal(ids);
    };
    await expectLists();
    await insertDelivered(501, branchId);
    await expectLists();
    expect(await listIds("limit=100")).to.have.length(100);
  });

  it("a list reads neither the deliveries that its filter excludes nor those of another application", async () => {
    const { clinicId, branchId } = caller.clinic;
    const { applicationId } = caller.application;
    const endpoint = { clinicId, branchId, applicationId, endpointId };
    await fillDeliveries(api.database.admin, endpoint, 5_000);
    const options = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off";
    const reader = new pg.Client({ connectionString: api.database.urls.query, options });
    await reader.connect();
    try {
      const queries = createDeliveryQueries().map((query) => ({ ...query, ownerId: applicationId, maxPages: 250 }));
      // A list that read all 5,180 deliveries would touch more than 400 pages.
      const strangerQueries = queries.map((query) => ({ ...query, ownerId: randomUUID(), maxPages: 10 }));
      const branchQueries = queries.map((query) => ({ ...query, branchIds: [randomUUID()] }));
      const allQueries = [...queries, ...strangerQueries].map((query) => ({ ...query, branchIds: null }));
      for (const { name, parameters, cursor, ownerId, branchIds, maxPages } of [...allQueries, ...branchQueries]) {
        const state = {
          clinicId,
          applicationId: ownerId,
          environment: "production",
          installation: { branchIds, animalAccess: "all" },
        };
        const request = { state, pathParams: { endpointId }, parameters: { limit: 1, ...parameters }, cursor };
        const values = await listWebhookDeliveries.getSqlParameters(request as never);
        const text = `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${listWebhookDeliveries.sql}`;
        const { rows } = await reader.query({ name: "explain", text, values: [...values] });
        const [{ Plan: plan }] = rows[0]["QUERY PLAN"];
        expect(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], name).to.be.below(maxPages);
      }
    } finally {
      await reader.end();
    }
  });

  it("a list with an appointment contains the deliveries of all its events at this endpoint", async () => {
    const { clinicId, branchId } = caller.clinic;
    const appointmentId = randomUUID();
    const requested = appointmentRequested(clinicId, branchId, "2026-03-10T09:00:00.000Z", {
      appointmentId,
      notes: null,
    });
    await api.given(requested, { type: "AppointmentConfirmed", data: { appointmentId } });
    const { rows } = await api.database.admin.query<{ event_id: string }>(
      `SELECT event_id FROM ${READ_MODEL_SCHEMA}.public_event WHERE appointment_id = $1 ORDER BY position`,
      [appointmentId],
    );
    const eventIds = rows.map(({ event_id }) => event_id);
    const [createdId, updatedId] = eventIds.map((eventId) => deriveWebhookDeliveryId(eventId, endpointId));
    await insertDelivery({ deliveryId: createdId!, createdAt: toTime(1) });
    await insertDelivery({
      deliveryId: updatedId!,
      createdAt: toTime(2),
      type: "appointment.updated",
      status: "failed",
    });
    await insertDelivery({ createdAt: toTime(3) });
    expect(await listIds(`appointmentId=${appointmentId.toUpperCase()}`)).to.deep.equal([updatedId, createdId]);
    expect(await listIds(`appointmentId=${appointmentId}&status=failed`)).to.deep.equal([updatedId]);
    expect(await listIds(`appointmentId=${appointmentId}&type=appointment.created`)).to.deep.equal([createdId]);
    expect(await listIds(`appointmentId=${appointmentId}&from=${toTime(3)}`)).to.deep.equal([]);
    expect(await readPageIds(`appointmentId=${appointmentId}&limit=1`)).to.deep.equal([[updatedId], [createdId]]);
    expect(await listIds(`appointmentId=${randomUUID()}`)).to.deep.equal([]);
    // Another application at the same clinic gets nothing about the appointment from its own endpoint.
    const otherCaller = await createCaller(api, caller.clinic);
    const otherEndpointId = randomUUID();
    await api.given(endpointRegistered(otherCaller.application, clinicId, otherEndpointId));
    const otherPath = `/webhook-endpoints/${otherEndpointId}/deliveries?appointmentId=${appointmentId}`;
    expect((await otherCaller.readBody("listWebhookDeliveries", otherPath)).deliveries).to.deep.equal([]);
  });

  it("invalid filters return 400 and name every invalid parameter", async () => {
    const query = "status=lost&type=x&appointmentId=1&from=2026-03-01&to=a&to=b";
    const { status, body } = await caller.get(`/webhook-endpoints/${endpointId}/deliveries?${query}`);
    expect([status, body.error]).to.deep.equal([400, "validation_failed"]);
    expect(body.details).to.deep.equal([
      { path: "status", message: "must be one of pending, delivered, failed, skipped, cancelled" },
      { path: "type", message: `must be one of ${deliveredEventType.options.join(", ")}` },
      { path: "appointmentId", message: "must be a UUID" },
      { path: "from", message: "must be an RFC 3339 date-time with an offset, such as 2026-05-04T09:00:00+02:00" },
      { path: "to", message: "must not be repeated" },
    ]);
  });
});
