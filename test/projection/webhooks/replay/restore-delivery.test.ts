import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { readRelayCheckpoint } from "../../../../projection/checkpoints/relay-checkpoint.ts";
import { DifferentLogError } from "../../../../projection/checkpoints/same-log.ts";
import { replayDelivery } from "../../../../projection/webhooks/replay/replay-delivery.ts";
import type { CatalogEvent } from "../../../../shared/domain/events/catalog.ts";
import { deriveWebhookDeliveryId } from "../../../../shared/domain/events/ids.ts";
import { createLogger } from "../../../../shared/runtime/logger.ts";
import { eventually } from "../../../support/eventually.ts";
import { type OwnLog, startSeparateLog } from "../../../support/own-log.ts";
import { type Receiver, startReceiver } from "../../../support/receiver.ts";
import { createStoredMetadata } from "../../../support/stored-metadata.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../../../support/webhook-libraries.ts";
import { createWorld, type Endpoint, type World } from "../world.ts";

const REPLAY_REQUESTED = "WebhookDeliveryReplayRequested";
const REPLAY_TYPES = ["WebhookDeliveryFailed", REPLAY_REQUESTED];

/** The tests use a separate log, because they store unreadable events and delete streams. */
describe("the replay of a delivery whose row or event was deleted", () => {
  let world: World;
  let receiver: Receiver;

  let log: OwnLog;
  let discardedCount = 0;

  before(async () => {
    log = await startSeparateLog();
    world = await createWorld({ eventstoreUrl: log.eventstoreUrl });
    world.startAll({ retryScheduleSeconds: [0.05], onDiscarded: () => (discardedCount += 1) });
  });
  after(async () => {
    await world.close();
    await log.stop();
  });
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.close());

  const appendEvent = (
    type: CatalogEvent["type"],
    deliveryId: string,
    { endpointId, clinicId }: Endpoint,
    otherData = {},
  ) =>
    world.append(
      `webhookDelivery-${deliveryId}`,
      { type, data: { deliveryId, endpointId, ...otherData } } as CatalogEvent,
      {
        environment: "production",
        clinicId,
      },
    );
  const readEventTypes = (deliveryId: string) => world.listEventTypes(`webhookDelivery-${deliveryId}`);
  async function createFailedDelivery(endpoint: Endpoint) {
    receiver.setDefaultReaction({ status: 500 });
    const appointment = await world.requestAppointment(endpoint.clinicId);
    const deliveryId = deriveWebhookDeliveryId(appointment.eventId, endpoint.endpointId);
    await world.awaitDeliveryEvents(deliveryId, "WebhookDeliveryFailed");
    receiver.setDefaultReaction({});
    return { ...appointment, deliveryId };
  }

  /** Creates a failed delivery and deletes its row, as the service does after 30 days. */
  async function createDeletedDelivery(endpoint: Endpoint) {
    const delivery = await createFailedDelivery(endpoint);
    await world.pool.query("DELETE FROM webhooks.delivery WHERE delivery_id = $1", [delivery.deliveryId]);
    return delivery;
  }

  it("a replay of a deleted delivery restores the delivery from the log and sends the webhook with the same id", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const { eventId, deliveryId } = await createDeletedDelivery(endpoint);
    await appendEvent("WebhookDeliveryReplayRequested", deliveryId, endpoint);
    const { attempts } = await world.awaitStatus(eventId, endpoint, "delivered");
    expect(attempts.map(({ number, status_code }) => [number, status_code])).to.deep.equal([[3, 200]]);
    const requests = receiver.listDeliveryRequests(deliveryId);
    expect(new Set(requests.map(({ body }) => body)).size).to.equal(1);
    expect(requests.map(({ status }) => status)).to.deep.equal([500, 500, 200]);
    expect(listAcceptingLibraries(endpoint.secret, requests.at(-1)!)).to.deep.equal(webhookLibraryNames);
  });

  it("if the service is connected to a different log, the replay of a deleted delivery fails, and the delivery does not expire", async () => {
    const { endpointId, clinicId } = await world.registerEndpoint(receiver.url);
    const deliveryId = randomUUID();
    const log = { ...world.log, read: async () => [{ id: requestId, type: REPLAY_REQUESTED, data: {} }] as never[] };
    const requestId = randomUUID();
    const request = {
      kind: "replay" as const,
      position: 1n,
      requestId,
      correlationId: randomUUID(),
      deliveryId,
      endpointId,
      clinicId,
      environment: "production" as const,
    };
    const requireLog = async () => {
      throw new DifferentLogError("the read models", "the log is empty");
    };
    const deps = { pool: world.pool, log, logger: createLogger("test", "silent"), requireLog };
    const error = await replayDelivery(deps, request, Date.now()).catch((error: Error) => error);
    expect(error).to.be.instanceOf(DifferentLogError);
    const { rowCount } = await world.pool.query("SELECT FROM webhooks.outbox WHERE stream = $1", [
      `webhookDelivery-${deliveryId}`,
    ]);
    expect([rowCount, await readEventTypes(deliveryId)]).to.deep.equal([0, []]);
  });

  it("a restored delivery is skipped while the endpoint is disabled, and can be replayed afterwards", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const { eventId, deliveryId } = await createDeletedDelivery(endpoint);
    await world.changeEndpoint(endpoint, "WebhookEndpointDisabled", { reason: "operator" });
    await appendEvent("WebhookDeliveryReplayRequested", deliveryId, endpoint);
    const skippedTypes = ["WebhookDeliveryFailed", "WebhookDeliveryReplayRequested", "WebhookDeliverySkipped"];
    await world.awaitDeliveryEvents(deliveryId, ...skippedTypes);
    await world.changeEndpoint(endpoint, "WebhookEndpointEnabled");
    await appendEvent("WebhookDeliveryReplayRequested", deliveryId, endpoint);
    await world.awaitStatus(eventId, endpoint, "delivered");
  });

  const notRestorableCases: [string, (endpoint: Endpoint) => Promise<string>][] = [
    [
      "without a recorded source event",
      async (endpoint) => {
        const deliveryId = randomUUID();
        await appendEvent("WebhookDeliveryFailed", deliveryId, endpoint, { attempts: 8 });
        return deliveryId;
      },
    ],
    [
      "with the source event of another delivery",
      async (endpoint) => {
        const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
        const deliveryId = randomUUID();
        const source = { eventId, stream: `appointment-${appointmentId}`, revision: 0 };
        await appendEvent("WebhookDeliverySkipped", deliveryId, endpoint, { source });
        return deliveryId;
      },
    ],
    [
      "with a missing source event",
      async (endpoint) => {
        const eventId = randomUUID();
        const deliveryId = deriveWebhookDeliveryId(eventId, endpoint.endpointId);
        const source = { eventId, stream: `appointment-${randomUUID()}`, revision: 4 };
        await appendEvent("WebhookDeliverySkipped", deliveryId, endpoint, { source });
        return deliveryId;
      },
    ],
  ];
  for (const [label, createDelivery] of notRestorableCases) {
    it(`if a replay is requested for a deleted delivery ${label}, the delivery expires and later messages are processed`, async () => {
      const endpoint = await world.registerEndpoint(receiver.url);
      const deliveryId = await createDelivery(endpoint);
      const [firstType] = await readEventTypes(deliveryId);
      await appendEvent("WebhookDeliveryReplayRequested", deliveryId, endpoint);
      const eventTypes = [firstType!, "WebhookDeliveryReplayRequested", "WebhookDeliveryExpired"];
      await world.awaitDeliveryEvents(deliveryId, ...eventTypes);
      // The next delivery proves that the request does not block messages and was processed only once.
      const { eventId } = await world.requestAppointment(endpoint.clinicId);
      await world.awaitStatus(eventId, endpoint, "delivered");
      expect(await readEventTypes(deliveryId)).to.deep.equal(eventTypes);
      expect(receiver.listDeliveryRequests(deliveryId)).to.deep.equal([]);
    });
  }

  /** Checks that the relay's checkpoint advances, which proves that every earlier message was acknowledged. */
  async function expectProgress(endpoint: Endpoint): Promise<void> {
    const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "delivered");
    const [event] = await world.log.read(`appointment-${appointmentId}`);
    await eventually(
      "the relay's checkpoint",
      async () => (await readRelayCheckpoint(world.pool)).position >= event!.position,
    );
  }

  it("a replay sends an event whose stream was deleted from the log", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const { appointmentId, eventId } = await createFailedDelivery(endpoint);
    await world.client.tombstoneStream(`appointment-${appointmentId}`);
    await world.requestReplay(eventId, endpoint);
    await world.awaitStatus(eventId, endpoint, "delivered");
    await expectProgress(endpoint);
    // The log's own event about the deletion has no webhook, so it is not quarantined.
    const { rowCount } = await world.pool.query("SELECT FROM webhooks.quarantined_event");
    expect(rowCount).to.equal(0);
  });

  it("a replay of an event that the read models lack is acknowledged, and does not block later messages", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const { deliveryId, eventId } = await createFailedDelivery(endpoint);
    const sql = "UPDATE webhooks.delivery SET event_id = $2 WHERE delivery_id = $1";
    await world.pool.query(sql, [deliveryId, randomUUID()]);
    await world.requestReplay(eventId, endpoint);
    await expectProgress(endpoint);
    expect(await readEventTypes(deliveryId)).to.deep.equal(REPLAY_TYPES);
  });

  it("an event of the outbox is discarded if its stream was deleted, and does not block later events", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const [deletedId, deliveryId] = [randomUUID(), randomUUID()];
    await world.client.tombstoneStream(`webhookDelivery-${deletedId}`);
    for (const id of [deletedId, deliveryId]) {
      const stream = `webhookDelivery-${id}`;
      const event = { type: "WebhookDeliveryExpired", data: { deliveryId: id, endpointId: endpoint.endpointId } };
      const values = [randomUUID(), stream, event, createStoredMetadata()];
      await world.pool.query("INSERT INTO webhooks.outbox VALUES ($1, $2, $3, $4, now())", values);
    }
    const isOutboxEmpty = async () => (await world.pool.query("SELECT FROM webhooks.outbox")).rowCount === 0;
    await eventually("an empty outbox", isOutboxEmpty);
    expect(await readEventTypes(deliveryId)).to.deep.equal(["WebhookDeliveryExpired"]);
    expect(discardedCount).to.equal(1);
    await expectProgress(endpoint);
  });
});
