import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { listWebhookDeliveries } from "../../../query-api/partner/webhook-deliveries.ts";
import { deliveredEventType } from "../../../shared/domain/events/partner.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { deriveWebhookDeliveryId } from "../../../shared/webhooks/delivery-id.ts";
import { createDeliveryQueries, fillDeliveries } from "../../bench/delivery-history.ts";
import { appointmentRequested } from "../../support/clinics.ts";
import { type DeliveryRow, insertDelivery as insertDeliveryRow } from "../../support/deliveries.ts";
import { endpointRegistered, installationApproved } from "../../support/partner-events.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import { createCaller, setUpCaller } from "./caller.ts";

const STATUSES = ["pending", "delivered", "failed", "skipped", "cancelled"] as const;

describe("filters of the list of deliveries", () => {
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
  const toTime = (minute: number) => `2026-03-01T08:${String(minute).padStart(2, "0")}:00.000Z`;

  it("a list with a status contains exactly the deliveries with this status, newest first", async () => {
    const idsByStatus = new Map<string, string[]>(STATUSES.map((status) => [status, []]));
    for (let minute = 0; minute < 15; minute += 1) {
      const status = STATUSES[minute % STATUSES.length]!;
      idsByStatus.get(status)!.unshift(await insertDelivery({ status, createdAt: toTime(minute) }));
    }
    for (const status of STATUSES) expect(await listIds(`status=${status}`)).to.deep.equal(idsByStatus.get(status));
    expect(await listIds("")).to.have.length(15);
  });

  it("the filters work for each pair of status and type", async () => {
    const ids = new Map<string, string>();
    for (const status of STATUSES) {
      for (const type of deliveredEventType.options) {
        ids.set(`${status} ${type}`, await insertDelivery({ status, type }));
      }
    }
    for (const type of deliveredEventType.options) {
      expect(await listIds(`type=${type}`), type).to.have.members(
        STATUSES.map((status) => ids.get(`${status} ${type}`)),
      );
      for (const status of STATUSES) {
        expect(await listIds(`status=${status}&type=${type}`)).to.deep.equal([ids.get(`${status} ${type}`)]);
      }
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

  it("the pages of a filtered list contain each matching delivery once, also if their creation times are equal", async () => {
    const ids: string[] = [];
    for (const minute of [1, 1, 1, 2, 2]) {
      ids.push(await insertDelivery({ status: "failed", createdAt: toTime(minute) }));
      await insertDelivery({ createdAt: toTime(minute) });
      ids.push(await insertDelivery({ status: "failed", type: "appointment.updated", createdAt: toTime(minute) }));
    }
    const pageIds: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const { deliveries, page } = await readList(`status=failed&limit=3${cursor && `&cursor=${cursor}`}`);
      pageIds.push(...deliveries.map(({ id }: { id: string }) => id));
      cursor = page.nextCursor;
    }
    expect(pageIds).to.have.length(ids.length);
    expect(pageIds).to.have.members(ids);
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
      const { deliveries, page } = await readList(`limit=2&to=${toTime(30)}`);
      const nextIds = await listIds(`limit=4&to=${toTime(30)}&cursor=${page.nextCursor}`);
      expect([...deliveries.map(({ id }: { id: string }) => id), ...nextIds]).to.deep.equal(ids);
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
        const values = await listWebhookDeliveries.getSqlParameters(request as never, {} as never);
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
    const firstPage = await readList(`appointmentId=${appointmentId}&limit=1`);
    const nextQuery = `appointmentId=${appointmentId}&limit=1&cursor=${firstPage.page.nextCursor}`;
    expect(await listIds(nextQuery)).to.deep.equal([createdId]);
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
