import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Role } from "../../../projection/roles/role.ts";
import { MAX_CLAIMED } from "../../../projection/webhooks/schedule/schedule.ts";
import { deriveWebhookDeliveryId } from "../../../shared/webhooks/delivery-id.ts";
import { createTestPool } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { createWorld, type Endpoint } from "./world.ts";

/** In each test, Postgres or the log refuses data of `faultyEndpoint`. `endpoint` must still get its webhooks. */
describe("a fault that concerns one endpoint", () => {
  const world = useResource(createWorld, "test");
  const receiver = useResource(startReceiver, "test");
  let faultyEndpoint: Endpoint;
  let endpoint: Endpoint;
  let webhooks: Role;

  beforeEach(async () => {
    world.start.projectors();
    world.start.relay();
    webhooks = world.start.webhooks({ retryScheduleSeconds: [] });
    faultyEndpoint = await world.registerEndpoint(`${receiver.url}/faulty`);
    endpoint = await world.registerEndpoint(receiver.url);
    await world.awaitRows("webhook_endpoint", "true", [], 2);
  });

  /** Lets Postgres refuse a row, by default as if it had an impossible value. */
  const refuseRows = (table: string, operation: "INSERT" | "UPDATE", condition: string, sqlState = "22000") =>
    world.pool.query(
      `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused' USING ERRCODE = '${sqlState}'; END $$;
       CREATE TRIGGER refuse BEFORE ${operation} ON webhooks.${table} FOR EACH ROW WHEN (${condition}) EXECUTE FUNCTION refuse()`,
    );
  /** Requests appointments alternately at the clinics of both endpoints. @returns the event ids of each clinic */
  const requestAppointments = async (): Promise<[faulty: string[], other: string[]]> => {
    const request = async ({ clinicId }: Endpoint) => (await world.requestAppointment(clinicId)).eventId;
    const ids = await Promise.all([faultyEndpoint, endpoint, faultyEndpoint, endpoint].map(request));
    return [ids.filter((_, index) => index % 2 === 0), ids.filter((_, index) => index % 2 === 1)];
  };

  it("does not stop the deliveries of other events, and its events are tried again later", async () => {
    await refuseRows("delivery", "INSERT", `NEW.endpoint_id = '${faultyEndpoint.endpointId}'`);
    const [faultyIds, otherIds] = await requestAppointments();
    for (const id of otherIds) await world.awaitStatus(id, endpoint, "delivered");
    const countSetAside = async () =>
      (await world.pool.query("SELECT FROM webhooks.late_event WHERE cause IS NOT NULL AND next_try_at > now()"))
        .rowCount;
    await eventually("the events set aside", async () => (await countSetAside()) === faultyIds.length);
    const retry = () => world.pool.query("UPDATE webhooks.late_event SET next_try_at = now()");
    await retry();
    await eventually("the second failures", async () => (await countSetAside()) === faultyIds.length);
    const [, laterIds] = await requestAppointments();
    for (const id of laterIds) await world.awaitStatus(id, endpoint, "delivered");
    await world.pool.query("DROP TRIGGER refuse ON webhooks.delivery");
    await retry();
    for (const id of faultyIds) await world.awaitStatus(id, faultyEndpoint, "delivered");
  });

  it("does not stop the deliveries of other events if a batch or an event takes longer than the time limit of a statement", async () => {
    await world.stopRoles(webhooks);
    const hastyPool = createTestPool(world.databaseUrl, { statementTimeoutMs: 1_000 });
    const { eventId: slowId } = await world.requestAppointment(endpoint.clinicId);
    await world.pool.query(
      `CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM pg_sleep(CASE NEW.event_id WHEN '${slowId}' THEN 5 ELSE 0.1 END); RETURN NEW; END $$;
       CREATE TRIGGER delay BEFORE INSERT ON webhooks.delivery FOR EACH ROW EXECUTE FUNCTION delay()`,
    );
    const ids: string[] = [];
    for (let count = 0; count < 30; count += 1) ids.push((await world.requestAppointment(endpoint.clinicId)).eventId);
    webhooks = world.start.webhooks({ retryScheduleSeconds: [], pool: hastyPool });
    for (const id of ids) await world.awaitStatus(id, endpoint, "delivered");
    await world.stopRoles(webhooks);
    const { rows } = await world.pool.query(
      "SELECT event_id AS id, cause FROM webhooks.late_event WHERE cause IS NOT NULL",
    );
    expect(rows).to.deep.equal([
      { id: slowId, cause: "The event's deliveries take longer than the time limit of a statement." },
    ]);
    await world.pool.query("DROP TRIGGER delay ON webhooks.delivery");
  });

  it("does not stop the outcomes of other attempts, and an outcome is recorded without a refused body", async () => {
    await refuseRows("attempt", "UPDATE", "NEW.answer = 'refused'");
    receiver.setDefaultReaction({ status: 200, body: "refused" }, "/faulty");
    const [faultyIds, otherIds] = await requestAppointments();
    for (const id of otherIds) await world.awaitStatus(id, endpoint, "delivered");
    for (const id of faultyIds) {
      const { attempts } = await world.awaitStatus(id, faultyEndpoint, "delivered");
      expect(attempts.map(({ status_code, answer }) => [status_code, answer])).to.deep.equal([[200, null]]);
    }
  });

  it("does not send a request again because the role lacks the right to record its outcome", async () => {
    await refuseRows("attempt", "UPDATE", "true", "42501");
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await eventually("the failure", () => webhooks.getStatus().lastError?.message.startsWith("outcomes"));
    expect(webhooks.getStatus()).to.deep.include({ state: "running", detail: "waits" });
    await world.pool.query("DROP TRIGGER refuse ON webhooks.attempt");
    await world.awaitStatus(eventId, endpoint, "delivered");
    expect(receiver.requests).to.have.length(1);
  });

  /** Runs a function while another transaction locks the faulty endpoint's rows in a table. */
  async function whileLocked(test: () => Promise<void>, table = "delivery"): Promise<void> {
    const locker = await world.pool.connect();
    try {
      await locker.query("SET idle_in_transaction_session_timeout = 0; BEGIN");
      const values = [faultyEndpoint.endpointId];
      const condition =
        table === "attempt"
          ? "delivery_id IN (SELECT delivery_id FROM webhooks.delivery WHERE endpoint_id = $1)"
          : "endpoint_id = $1";
      await locker.query(`SELECT FROM webhooks.${table} WHERE ${condition} FOR UPDATE`, values);
      await test();
    } finally {
      locker.release(true);
    }
  }

  it("does not stop replays of other deliveries while somebody locks its delivery", async () => {
    receiver.queueReactions({ status: 500 }, { status: 500 });
    const failDelivery = async (failingEndpoint: Endpoint) => {
      const { eventId } = await world.requestAppointment(failingEndpoint.clinicId);
      await world.awaitStatus(eventId, failingEndpoint, "failed");
      return eventId;
    };
    const [faultyId, otherId] = [await failDelivery(faultyEndpoint), await failDelivery(endpoint)];
    const isWaiting = async () =>
      (
        await world.pool.query(
          "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
      ).rowCount !== 0;
    await whileLocked(async () => {
      await world.requestReplay(faultyId, faultyEndpoint);
      await eventually("a statement that waits", isWaiting);
      await world.requestReplay(otherId, endpoint);
      await world.awaitStatus(otherId, endpoint, "delivered");
    });
    await world.awaitStatus(faultyId, faultyEndpoint, "delivered");
  });

  it("does not stop the closing of other deliveries while somebody locks its delivery", async () => {
    await world.stopRoles(webhooks);
    webhooks = world.start.webhooks({ retryScheduleSeconds: [3_600] });
    receiver.setDefaultReaction({ status: 500 });
    receiver.setDefaultReaction({ status: 500 }, "/faulty");
    const failAttempt = async (failingEndpoint: Endpoint) => {
      const { eventId } = await world.requestAppointment(failingEndpoint.clinicId);
      await world.awaitFirstResponse(eventId, failingEndpoint, 500);
      return eventId;
    };
    const [faultyId, otherId] = [await failAttempt(faultyEndpoint), await failAttempt(endpoint)];
    await whileLocked(async () => {
      for (const disabledEndpoint of [faultyEndpoint, endpoint])
        await world.changeEndpoint(disabledEndpoint, "WebhookEndpointDisabled", { reason: "partner" });
      await world.awaitStatus(otherId, endpoint, "skipped");
      expect(await world.readDelivery(faultyId, faultyEndpoint)).to.deep.include({ status: "pending" });
    });
    await world.awaitStatus(faultyId, faultyEndpoint, "skipped");
  });

  for (const table of ["delivery", "pending_delivery", "attempt"])
    it(`does not stop other webhooks while somebody locks its rows of the table ${table}`, async () => {
      await world.stopRoles(webhooks);
      webhooks = world.start.webhooks({ timeoutMs: 120_000 });
      receiver.setDefaultReaction({ mode: "hold" }, "/faulty");
      const request = async ({ clinicId }: Endpoint) => (await world.requestAppointment(clinicId)).eventId;
      const faultyIds = await Promise.all([request(faultyEndpoint), request(faultyEndpoint)]);
      await eventually("the attempts", () => receiver.countHeldRequests() === faultyIds.length);
      await whileLocked(async () => {
        receiver.release();
        const otherIds = await Promise.all([request(endpoint), request(endpoint)]);
        for (const id of otherIds) await world.awaitStatus(id, endpoint, "delivered");
        for (const id of faultyIds)
          expect(await world.readDelivery(id, faultyEndpoint)).to.deep.include({ status: "pending" });
      }, table);
      for (const id of faultyIds) await world.awaitStatus(id, faultyEndpoint, "delivered");
      expect(receiver.requests.filter(({ path }) => path === "/faulty")).to.have.length(faultyIds.length);
    });

  it("does not stop the outcomes of other attempts while the role stops", async () => {
    receiver.setDefaultReaction({ delayMs: 500 });
    const request = async ({ clinicId }: Endpoint) => (await world.requestAppointment(clinicId)).eventId;
    receiver.setDefaultReaction({ mode: "hold" }, "/faulty");
    const faultyId = await request(faultyEndpoint);
    await eventually("the attempt", () => receiver.countHeldRequests() === 1);
    await whileLocked(async () => {
      receiver.release();
      await world.awaitStatus(await request(endpoint), endpoint, "delivered");
      const id = await request(endpoint);
      await eventually("the last request", () => receiver.requests.length === 3);
      await world.stopRoles(webhooks);
      expect(await world.readDelivery(id, endpoint)).to.deep.include({ status: "delivered" });
      expect(await world.readDelivery(faultyId, faultyEndpoint)).to.deep.include({ status: "pending" });
    });
  });

  it("does not stop the outcomes of other attempts while somebody locks the record of its failures", async () => {
    for (const path of ["/", "/faulty"]) receiver.setDefaultReaction({ status: 500 }, path);
    const request = async ({ clinicId }: Endpoint) => (await world.requestAppointment(clinicId)).eventId;
    await world.awaitStatus(await request(faultyEndpoint), faultyEndpoint, "failed");
    let faultyIds: string[] = [];
    await whileLocked(async () => {
      faultyIds = await Promise.all(Array.from({ length: 40 }, () => request(faultyEndpoint)));
      for (let count = 0; count < 5; count += 1) await world.awaitStatus(await request(endpoint), endpoint, "failed");
    }, "failing_endpoint");
    for (const id of faultyIds) await world.awaitStatus(id, faultyEndpoint, "failed");
  });

  /** Inserts due deliveries of one event to the faulty endpoint. */
  const insertPendingDeliveries = (eventId: string, deliveryIds: readonly string[]) =>
    world.pool.query(
      `WITH ids AS MATERIALIZED (SELECT unnest($1::uuid[]) AS id),
            queued AS (
              INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, event_id, event_position,
                next_attempt_at, failed_attempt_count, attempt_count) SELECT id, $2, $5, 0, now(), 0, 0 FROM ids)
       INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, application_id, environment, event_id,
         event_type, event_position, status, cause_id, correlation_id, next_attempt_at, created_at, updated_at)
       SELECT id, $2, $3, $4, 'production', $5, 'appointment.created', 0, 'pending', id, id, now(), now(), now()
         FROM ids`,
      [deliveryIds, faultyEndpoint.endpointId, faultyEndpoint.clinicId, faultyEndpoint.applicationId, eventId],
    );

  it("does not stop the claims of other deliveries while outcomes of 2,000 locked deliveries wait", async () => {
    await world.stopRoles(webhooks);
    const { eventId } = await world.requestAppointment(randomUUID());
    await insertPendingDeliveries(
      eventId,
      Array.from({ length: 2_000 }, () => randomUUID()),
    );
    await world.awaitRows("public_event", "event_id = $1", [eventId]);
    const awaitDelivered = async () => {
      const { eventId } = await world.requestAppointment(endpoint.clinicId);
      await world.awaitStatus(eventId, endpoint, "delivered");
    };
    await whileLocked(async () => {
      webhooks = world.start.webhooks({ timeoutMs: 120_000 });
      await eventually("the requests", () => receiver.requests.length >= MAX_CLAIMED);
      await awaitDelivered();
    });
    await eventually("the outcomes", async () => {
      const { rowCount } = await world.pool.query("SELECT FROM webhooks.pending_delivery");
      return rowCount === 0;
    });
    expect(receiver.requests).to.have.length(2_001);
  });

  it("does not stop the claims of other deliveries if the attempt of a delivery is already recorded", async () => {
    await world.stopRoles(webhooks);
    const { eventId } = await world.requestAppointment(faultyEndpoint.clinicId);
    const deliveryId = deriveWebhookDeliveryId(eventId, faultyEndpoint.endpointId);
    await insertPendingDeliveries(eventId, [deliveryId]);
    await world.pool.query("INSERT INTO webhooks.attempt (delivery_id, number, started_at) VALUES ($1, 1, now())", [
      deliveryId,
    ]);
    const { eventId: otherId } = await world.requestAppointment(endpoint.clinicId);
    webhooks = world.start.webhooks();
    await world.awaitStatus(otherId, endpoint, "delivered");
    await world.awaitStatus(eventId, faultyEndpoint, "delivered");
  });
});
