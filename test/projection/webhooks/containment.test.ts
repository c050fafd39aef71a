import { randomUUID } from "node:crypto";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import type { Role } from "../../../projection/roles/role.ts";
import { LANE_LIMITS } from "../../../projection/webhooks/schedule/slots.ts";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import { type EventLog, LogUnavailableError } from "../../../shared/eventstore/log.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { createWorld, type Endpoint, type World } from "./world.ts";

/** Each test lets the database or the log refuse what belongs to one endpoint. Another endpoint gets its webhooks. */
describe("a fault that concerns one endpoint", () => {
  let world: World;
  let receiver: Receiver;
  let faultyEndpoint: Endpoint;
  let endpoint: Endpoint;
  let relay: Role;
  let webhooks: Role;

  beforeEach(async () => {
    world = await createWorld();
    receiver = await startReceiver();
    world.start.projectors();
    relay = world.start.relay();
    webhooks = world.start.webhooks({ retryScheduleSeconds: [] });
    faultyEndpoint = await world.registerEndpoint(`${receiver.url}/faulty`);
    endpoint = await world.registerEndpoint(receiver.url);
    await world.awaitRows("webhook_endpoint", "true", [], 2);
  });
  afterEach(async () => {
    await world.close();
    await receiver.close();
  });

  /** Lets Postgres refuse a row, as if it had an impossible value. */
  const refuseRows = (table: string, operation: "INSERT" | "UPDATE", condition: string) =>
    world.pool.query(
      `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused' USING ERRCODE = '22000'; END $$;
       CREATE TRIGGER refuse BEFORE ${operation} ON webhooks.${table} FOR EACH ROW WHEN (${condition}) EXECUTE FUNCTION refuse()`,
    );
  /** Requests appointments of both clinics in turn. @returns the ids of their events */
  const requestAppointments = async (): Promise<[faulty: string[], other: string[]]> => {
    const request = async ({ clinicId }: Endpoint) => (await world.requestAppointment(clinicId)).eventId;
    const ids = await Promise.all([faultyEndpoint, endpoint, faultyEndpoint, endpoint].map(request));
    return [ids.filter((_, index) => index % 2 === 0), ids.filter((_, index) => index % 2 === 1)];
  };

  it("does not stop the matching of other events, and a later relay sends its events", async () => {
    await refuseRows("delivery", "INSERT", `NEW.endpoint_id = '${faultyEndpoint.endpointId}'`);
    const [faultyIds, otherIds] = await requestAppointments();
    for (const id of otherIds) await world.awaitStatus(id, endpoint, "delivered");
    const countQuarantined = async () =>
      (await world.pool.query("SELECT FROM webhooks.quarantined_event")).rowCount as number;
    await eventually("the quarantine", async () => (await countQuarantined()) === faultyIds.length);
    await world.stopRoles(relay);
    relay = world.start.relay();
    await requestAppointments();
    expect(await countQuarantined()).to.be.at.least(faultyIds.length);
    await world.pool.query("DROP TRIGGER refuse ON webhooks.delivery");
    await world.stopRoles(relay);
    relay = world.start.relay();
    for (const id of faultyIds) await world.awaitStatus(id, faultyEndpoint, "delivered");
    await eventually("no quarantine", async () => (await countQuarantined()) === 0);
  });

  it("does not stop the matching of events if a batch takes longer than the time limit of a statement", async () => {
    await world.stopRoles(webhooks);
    const { databaseUrl: url, logger } = world;
    const hastyPool = createPool({ url, applicationName: "hasty", size: 4, statementTimeoutMs: 1_000, logger });
    await world.pool.query(
      `CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END $$;
       CREATE TRIGGER delay BEFORE INSERT ON webhooks.delivery FOR EACH ROW EXECUTE FUNCTION delay()`,
    );
    const ids: string[] = [];
    for (let count = 0; count < 30; count += 1) ids.push((await world.requestAppointment(endpoint.clinicId)).eventId);
    webhooks = world.start.webhooks({ retryScheduleSeconds: [], pool: hastyPool });
    for (const id of ids) await world.awaitStatus(id, endpoint, "delivered");
    await world.stopRoles(webhooks);
    await hastyPool.end();
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

  /** Runs a test while a transaction holds locks on rows of the faulty endpoint, by default on its deliveries. */
  async function whileLocked(test: () => Promise<void>, table = "delivery"): Promise<void> {
    const locker = await world.pool.connect();
    try {
      await locker.query("SET idle_in_transaction_session_timeout = 0; BEGIN");
      const values = [faultyEndpoint.endpointId];
      await locker.query(`SELECT FROM webhooks.${table} WHERE endpoint_id = $1 FOR UPDATE`, values);
      await test();
    } finally {
      locker.release(true);
    }
  }

  /** Deletes a failed delivery, so that its replay reads the log. */
  async function deleteFailedDelivery(eventId: string): Promise<void> {
    const deliveryId = deriveWebhookDeliveryId(eventId, faultyEndpoint.endpointId);
    await world.awaitDeliveryEvents(deliveryId, "WebhookDeliveryFailed");
    await world.pool.query("DELETE FROM webhooks.delivery WHERE delivery_id = $1", [deliveryId]);
  }

  it("does not stop new events while the log does not answer for a delivery that is to be replayed", async () => {
    await world.stopRoles(webhooks);
    let [isHanging, hasHung] = [false, false];
    let endRead = () => {};
    const endPromise = new Promise<void>((resolve) => {
      endRead = resolve;
    });
    const { eventId } = await world.requestAppointment(faultyEndpoint.clinicId);
    const log: EventLog = {
      ...world.log,
      async read(stream, ...options) {
        if (isHanging && stream.startsWith("webhookDelivery-")) {
          hasHung = true;
          await endPromise;
        }
        return world.log.read(stream, ...options);
      },
    };
    webhooks = world.start.webhooks({ retryScheduleSeconds: [], log });
    receiver.queueReactions({ status: 500 });
    await deleteFailedDelivery(eventId);
    isHanging = true;
    await world.requestReplay(eventId, faultyEndpoint);
    await eventually("the read", () => hasHung);
    const { eventId: otherId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(otherId, endpoint, "delivered");
    endRead();
    await world.awaitStatus(eventId, faultyEndpoint, "delivered");
  });

  it("does not stop messages while the log is unavailable for a delivery that is to be replayed", async () => {
    await world.stopRoles(webhooks);
    let [isUnavailable, failureCount] = [false, 0];
    const log: EventLog = {
      ...world.log,
      async read(stream, ...options) {
        if (!isUnavailable || !stream.startsWith("webhookDelivery-")) return world.log.read(stream, ...options);
        failureCount += 1;
        throw new LogUnavailableError("the event log did not respond in time");
      },
    };
    webhooks = world.start.webhooks({ retryScheduleSeconds: [], log });
    receiver.queueReactions({ status: 500 });
    const { eventId } = await world.requestAppointment(faultyEndpoint.clinicId);
    await deleteFailedDelivery(eventId);
    isUnavailable = true;
    await world.requestReplay(eventId, faultyEndpoint);
    await eventually("the failed read", () => failureCount > 0);
    const { eventId: otherId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(otherId, endpoint, "delivered");
    expect(webhooks.getStatus().lastError?.message ?? "").not.to.include("did not respond in time");
    isUnavailable = false;
    await world.awaitStatus(eventId, faultyEndpoint, "delivered");
  });

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
      await eventually("no statement that waits", async () => !(await isWaiting()));
      await world.requestReplay(otherId, endpoint);
      await world.awaitStatus(otherId, endpoint, "delivered");
      expect(webhooks.getStatus().lastError?.message ?? "").not.to.include("messages: canceling statement");
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

  it("does not stop the outcomes of other attempts while somebody locks its deliveries", async () => {
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
    });
    for (const id of faultyIds) await world.awaitStatus(id, faultyEndpoint, "delivered");
    expect(receiver.requests.filter(({ path }) => path === "/faulty")).to.have.length(faultyIds.length);
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

  it("does not stop the claims of other deliveries while outcomes of 2,000 locked deliveries wait", async () => {
    const { endpointId, clinicId, applicationId } = faultyEndpoint;
    await world.stopRoles(webhooks);
    await world.pool.query(
      `WITH ids AS MATERIALIZED (SELECT gen_random_uuid() AS id FROM generate_series(1, 2000)),
            queued AS (
              INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, body, next_attempt_at,
                round_attempt_count, attempt_count) SELECT id, $1, '{}', now(), 0, 0 FROM ids)
       INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, application_id, environment, event_id,
         event_type, event_stream, event_revision, status, cause_id, correlation_id, next_attempt_at, created_at, updated_at)
       SELECT id, $1, $2, $3, 'production', id, 'appointment.created', 'appointment-1', 0, 'pending', id, id,
         now(), now(), now() FROM ids`,
      [endpointId, clinicId, applicationId],
    );
    const awaitDelivered = async () => {
      const { eventId } = await world.requestAppointment(endpoint.clinicId);
      await world.awaitStatus(eventId, endpoint, "delivered");
    };
    await whileLocked(async () => {
      webhooks = world.start.webhooks({ timeoutMs: 120_000 });
      await eventually("the requests", () => receiver.requests.length >= 2 * LANE_LIMITS.first.slotCount);
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
    const { appointmentId, eventId } = await world.requestAppointment(faultyEndpoint.clinicId);
    const values = [
      deriveWebhookDeliveryId(eventId, faultyEndpoint.endpointId),
      eventId,
      `appointment-${appointmentId}`,
    ];
    const { endpointId, clinicId, applicationId } = faultyEndpoint;
    await world.pool.query(
      `INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, application_id, environment, event_id,
         event_type, event_stream, event_revision, status, cause_id, correlation_id, next_attempt_at, created_at, updated_at)
       VALUES ($1, $4, $5, $6, 'production', $2, 'appointment.created', $3, 0, 'pending', $2, $2, now(), now(), now())`,
      [...values, endpointId, clinicId, applicationId],
    );
    await world.pool.query(
      `INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, body, next_attempt_at, round_attempt_count,
         attempt_count) VALUES ($1, $2, '{}', now(), 0, 0)`,
      [values[0], endpointId],
    );
    await world.pool.query("INSERT INTO webhooks.attempt (delivery_id, number, started_at) VALUES ($1, 1, now())", [
      values[0],
    ]);
    const { eventId: otherId } = await world.requestAppointment(endpoint.clinicId);
    webhooks = world.start.webhooks();
    await world.awaitStatus(otherId, endpoint, "delivered");
    await world.awaitStatus(eventId, faultyEndpoint, "delivered");
  });

  it("does not stop the outbox events of other streams", async () => {
    const unreadableEvent = jsonEvent({ id: randomUUID(), type: "WebhookDeliveryFailed", data: {} });
    receiver.setDefaultReaction({ status: 500 });
    receiver.setDefaultReaction({ status: 500 }, "/faulty");
    const faultyIds = Array.from({ length: 250 }, () => randomUUID());
    // More events than one batch of the outbox wait for a stream that cannot be read.
    await world.client.appendToStream("other-1", [unreadableEvent]);
    await world.pool.query(
      `INSERT INTO webhooks.outbox (event_id, stream, event, metadata, created_at)
       SELECT id, 'other-1', '{"type": "WebhookDeliverySkipped"}', '{}', now() - interval '1 hour'
         FROM unnest($1::uuid[]) id`,
      [faultyIds],
    );
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "failed");
    await eventually("an outbox with only the faulty stream", async () => {
      const { rows } = await world.pool.query("SELECT count(*)::integer AS count FROM webhooks.outbox");
      return rows[0].count === faultyIds.length;
    });
  });

  it("does not stop the outbox events of other streams while the log does not answer for 300 streams", async () => {
    await world.stopRoles(webhooks);
    const unavailable = () => Promise.reject(new LogUnavailableError("the event log did not respond in time"));
    const log: EventLog = {
      ...world.log,
      read: (stream, ...options) => (stream.startsWith("other-") ? unavailable() : world.log.read(stream, ...options)),
    };
    await world.pool.query(
      `INSERT INTO webhooks.outbox (event_id, stream, event, metadata, created_at)
       SELECT gen_random_uuid(), 'other-' || n, '{"type": "WebhookDeliverySkipped"}', '{}', now() - interval '1 hour'
         FROM generate_series(1, 300) n`,
    );
    receiver.setDefaultReaction({ status: 500 });
    webhooks = world.start.webhooks({ retryScheduleSeconds: [], log });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "failed");
    await eventually("an outbox with only the other streams", async () => {
      const { rows } = await world.pool.query("SELECT count(*)::integer AS count FROM webhooks.outbox");
      return rows[0].count === 300;
    });
  });
});
