import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { findEndedReplays } from "../../../projection/webhooks/record/record-events.ts";
import { continueReplay, continueReplays } from "../../../projection/webhooks/replay/continue-replays.ts";
import { findUnfinishedReplays, MAX_BATCH_SIZE } from "../../../projection/webhooks/replay/select-deliveries.ts";
import type { WebhookReplayEvent } from "../../../shared/domain/events/partner.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { deriveWebhookDeliveryId } from "../../../shared/webhooks/delivery-id.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { getRejection } from "../../support/rejection.ts";
import { useResource } from "../../support/resources.ts";
import { createWorld, type Endpoint } from "./world.ts";

type Requested = Extract<WebhookReplayEvent, { type: "WebhookReplayRequested" }>["data"];

const toHoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString();

const TWO_BATCHES = MAX_BATCH_SIZE + 1;

describe("replays of several deliveries", () => {
  const world = useResource(createWorld);
  let receiver: Receiver;
  let endpoint: Endpoint;

  before(async () => {
    world.start.projectors();
    receiver = await startReceiver();
  });
  beforeEach(async () => {
    receiver.requests.splice(0);
    endpoint = await world.registerEndpoint(receiver.url);
  });

  const deps = () => ({ pool: world.pool, logger: createLogger("test", "silent") });

  /** Requests appointments, and inserts their deliveries with a given status. @returns the delivery ids */
  async function insertDeliveries(count: number, status: string, createdAt = toHoursAgo(1)) {
    const insertDelivery = async (n: number) => {
      const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
      const deliveryId = deriveWebhookDeliveryId(eventId, endpoint.endpointId);
      await world.pool.query(
        `INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, application_id, environment, event_id,
           event_type, event_position, appointment_id, status, attempt_count, cause_id, correlation_id, created_at, updated_at)
         VALUES ($1, $2, $3, $4, 'production', $5, 'appointment.created', 0, $6, $7, 3, $5, $5,
           $8::timestamptz + $9 * interval '1 microsecond', $8)`,
        [
          ...[deliveryId, endpoint.endpointId, endpoint.clinicId, endpoint.applicationId, eventId],
          ...[appointmentId, status, createdAt, n],
        ],
      );
      return deliveryId;
    };
    return Promise.all(Array.from({ length: count }, (_, n) => insertDelivery(n)));
  }

  /** Appends a request for a replay, and waits until the read models contain it. */
  async function requestReplay(changes: Partial<Requested> = {}) {
    const options = {
      since: toHoursAgo(2),
      until: new Date().toISOString(),
      statuses: ["failed", "skipped"],
      ...changes,
    };
    const replayId = await world.requestReplays(endpoint, options);
    return eventually("the replay", async () =>
      (await findUnfinishedReplays(world.pool)).find((replay) => replay.replayId === replayId),
    );
  }
  const readStatuses = async (ids: readonly string[]) => {
    const { rows } = await world.pool.query<{ status: string; count: bigint }>(
      "SELECT status, count(*) FROM webhooks.delivery WHERE delivery_id = ANY ($1::uuid[]) GROUP BY status",
      [ids],
    );
    return Object.fromEntries(rows.map(({ status, count }) => [status, Number(count)]));
  };
  /** Waits until the log contains the end of a replay. @returns the data of WebhookReplayCompleted */
  const awaitEnd = (replayId: string) =>
    eventually("the end of the replay", async () => {
      const events = await world.log.read<WebhookReplayEvent>(`webhookReplay-${replayId}`);
      const ended = events.flatMap((event) => (event.type === "WebhookReplayCompleted" ? [event.data] : []));
      expect(ended.length).to.be.at.most(1);
      return ended[0];
    });

  it("a replay since a time sends failed and skipped deliveries again, with their ids and bodies", async () => {
    const olderIds = await insertDeliveries(1, "failed", toHoursAgo(3));
    const replayedIds = [...(await insertDeliveries(2, "failed")), ...(await insertDeliveries(1, "skipped"))];
    const otherIds = [...(await insertDeliveries(1, "delivered")), ...(await insertDeliveries(1, "cancelled"))];
    const { replayId } = await requestReplay();
    const webhooks = world.start.webhooks();
    const end = await awaitEnd(replayId);
    expect(end).to.deep.include({ outcome: "completed", replayedCount: 3, notReplayedCount: 0 });
    await eventually("the deliveries", async () => (await readStatuses(replayedIds)).delivered === 3);
    await world.stopRoles(webhooks);
    expect(receiver.requests.map(({ headers }) => headers["webhook-id"])).to.have.members(replayedIds);
    expect(await readStatuses(olderIds)).to.deep.equal({ failed: 1 });
    expect(await readStatuses(otherIds)).to.deep.equal({ delivered: 1, cancelled: 1 });
    const { rows } = await world.pool.query("SELECT attempt_count FROM webhooks.delivery WHERE delivery_id = $1", [
      replayedIds[0],
    ]);
    expect(rows).to.deep.equal([{ attempt_count: 4 }]);
  });

  it("a delivered delivery is sent again if the request contains its id", async () => {
    const deliveryIds = [...(await insertDeliveries(1, "delivered")), ...(await insertDeliveries(1, "cancelled"))];
    const { replayId } = await requestReplay({
      since: null,
      statuses: ["failed", "skipped", "delivered"],
      deliveryIds: [...deliveryIds, randomUUID()],
    });
    const webhooks = world.start.webhooks();
    expect(await awaitEnd(replayId)).to.deep.include({ replayedCount: 1, notReplayedCount: 2 });
    await eventually("the request", async () => receiver.requests.length === 1);
    await eventually("the delivery", async () => (await readStatuses(deliveryIds)).delivered === 1);
    await world.stopRoles(webhooks);
    expect(receiver.requests[0]?.headers["webhook-id"]).to.equal(deliveryIds[0]);
  });

  it("an attempt fails if the read models lack the event", async () => {
    const ids = await insertDeliveries(2, "failed");
    await world.pool.query("UPDATE webhooks.delivery SET event_id = $2 WHERE delivery_id = $1", [ids[0], randomUUID()]);
    await requestReplay();
    const webhooks = world.start.webhooks({ retryScheduleSeconds: [] });
    await eventually("both outcomes", async () => {
      const { delivered, failed } = await readStatuses(ids);
      return delivered === 1 && failed === 1;
    });
    await world.stopRoles(webhooks);
    const { rows } = await world.pool.query("SELECT error FROM webhooks.attempt WHERE delivery_id = $1", [ids[0]]);
    expect(rows).to.deep.equal([{ error: "event_unavailable" }]);
  });

  it("a replay stops if the endpoint is disabled", async () => {
    const ids = await insertDeliveries(1, "failed");
    const replay = await requestReplay();
    await world.changeEndpoint(endpoint, "WebhookEndpointDisabled", { reason: "partner" });
    await world.awaitEndpointStatus(endpoint, "disabled");
    const webhooks = world.start.webhooks();
    expect(await awaitEnd(replay.replayId)).to.deep.include({ outcome: "stopped", replayedCount: 0 });
    await world.stopRoles(webhooks);
    expect(await readStatuses(ids)).to.deep.equal({ failed: 1 });
  });

  it("a request by id that stops counts as processed for its deliveries, but not for those of other endpoints", async () => {
    const otherIds = await insertDeliveries(1, "failed");
    endpoint = await world.registerEndpoint(receiver.url);
    const ids = await insertDeliveries(1, "failed");
    const replay = await requestReplay({ since: null, deliveryIds: [...ids, ...otherIds] });
    await world.changeEndpoint(endpoint, "WebhookEndpointDisabled", { reason: "partner" });
    await world.awaitEndpointStatus(endpoint, "disabled");
    expect(await continueReplay(deps(), replay, Date.now())).to.equal("ended");
    const { rows } = await world.pool.query(
      'SELECT delivery_id AS id, replay_position AS "replayPosition" FROM webhooks.delivery WHERE delivery_id = ANY ($1)',
      [[...ids, ...otherIds]],
    );
    expect(rows).to.have.deep.members([
      { id: ids[0], replayPosition: replay.position },
      { id: otherIds[0], replayPosition: null },
    ]);
  });

  it("a replay leaves out a delivery that Postgres refuses", async () => {
    const ids = await insertDeliveries(5, "failed");
    // A delivery cannot be pending twice.
    await world.pool.query(
      `INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, event_id, event_position, next_attempt_at,
         failed_attempt_count, attempt_count) VALUES ($1, $2, gen_random_uuid(), 0, now() + interval '1 day', 0, 0)`,
      [ids[3], endpoint.endpointId],
    );
    const replay = await requestReplay();
    expect(await continueReplay(deps(), replay, Date.now())).to.equal("ended");
    expect(await readStatuses(ids)).to.deep.equal({ pending: 4, failed: 1 });
    const { rows } = await world.pool.query(
      "SELECT replayed_count, not_replayed_count, outcome FROM webhooks.replay WHERE replay_id = $1",
      [replay.replayId],
    );
    expect(rows).to.deep.equal([{ replayed_count: 4, not_replayed_count: 1, outcome: "completed" }]);
  });

  it("a missing right stops all replays, and an unknown error only moves its replay to the end", async () => {
    await insertDeliveries(1, "failed");
    const { replayId } = await requestReplay();
    const refuse = (sqlState: string) =>
      world.pool.query(
        `CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused' USING ERRCODE = '${sqlState}'; END $$;
         CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON webhooks.pending_delivery FOR EACH ROW
           WHEN (NEW.endpoint_id = '${endpoint.endpointId}') EXECUTE FUNCTION refuse()`,
      );
    const countMoved = async () =>
      (await world.pool.query("SELECT FROM webhooks.replay WHERE replay_id = $1", [replayId])).rowCount;
    await refuse("42501");
    expect(await getRejection(continueReplays(deps(), Date.now))).to.have.property("code", "42501");
    expect(await countMoved()).to.equal(0);
    await refuse("XX000");
    await continueReplays(deps(), Date.now);
    expect(await countMoved()).to.equal(1);
    await world.pool.query("DROP TRIGGER refuse ON webhooks.pending_delivery");
  });

  it("only one process works on a replay, and an application gets one batch at a time", async () => {
    await insertDeliveries(1, "failed");
    const replay = await requestReplay();
    await world.requestReplays(endpoint, { since: toHoursAgo(2), until: new Date().toISOString() });
    const { applicationId } = endpoint;
    const isOwn = (candidate: { endpointId: string }) => candidate.endpointId === endpoint.endpointId;
    await world.awaitRows("webhook_replay", "application_id = $1", [applicationId], 2);
    expect((await findUnfinishedReplays(world.pool)).filter(isOwn)).to.have.length(1);
    const steps = await Promise.all([1, 2].map(() => continueReplay(deps(), replay, Date.now())));
    expect(steps).to.have.members(["ended", "taken"]);
    expect((await findUnfinishedReplays(world.pool)).filter(isOwn)).to.have.length(1);
  });

  it("a replay waits while many deliveries of the endpoint wait for a first attempt", async () => {
    const ids = await insertDeliveries(1, "failed");
    const replay = await requestReplay();
    await world.pool.query(
      `INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, event_id, event_position, next_attempt_at,
         failed_attempt_count, attempt_count) SELECT gen_random_uuid(), $1, gen_random_uuid(), 0, now() + interval '1 day', 0, 0 FROM generate_series(1, 1000)`,
      [endpoint.endpointId],
    );
    expect(await continueReplay(deps(), replay, Date.now())).to.equal("waiting");
    expect(await readStatuses(ids)).to.deep.equal({ failed: 1 });
    await world.pool.query("DELETE FROM webhooks.pending_delivery WHERE endpoint_id = $1", [endpoint.endpointId]);
    expect(await continueReplay(deps(), replay, Date.now())).to.equal("ended");
  });

  it("a process continues a replay with its next batch, and its end is recorded once", async () => {
    const ids = await insertDeliveries(TWO_BATCHES, "failed");
    const replay = await requestReplay();
    const newestId = ids.at(-1)!;
    expect(await continueReplay(deps(), replay, Date.now())).to.equal("started");
    expect(await readStatuses(ids)).to.deep.equal({ pending: MAX_BATCH_SIZE, failed: 1 });
    expect(await readStatuses([newestId])).to.deep.equal({ failed: 1 });
    expect(await continueReplay(deps(), replay, Date.now())).to.equal("ended");
    expect(await readStatuses(ids)).to.deep.equal({ pending: TWO_BATCHES });
    const unrecordedEvents = await findEndedReplays(world.pool);
    // The second time, as if the process had been killed after the first.
    await world.recordEvents(unrecordedEvents);
    await world.recordEvents(unrecordedEvents);
    expect(await awaitEnd(replay.replayId)).to.include({ outcome: "completed", replayedCount: TWO_BATCHES });
    const isSame = ({ stream }: { stream: string }) => stream === `webhookReplay-${replay.replayId}`;
    expect((await findEndedReplays(world.pool)).filter(isSame)).to.deep.equal([]);
    const { rows: progress } = await world.pool.query(
      "SELECT replayed_count, not_replayed_count, outcome FROM webhooks.replay WHERE replay_id = $1",
      [replay.replayId],
    );
    expect(progress).to.deep.equal([{ replayed_count: TWO_BATCHES, not_replayed_count: 0, outcome: "completed" }]);
  });
});
