import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { startLogServer } from "../../../../deploy/local/eventstore/server.ts";
import { readRelayCheckpoint } from "../../../../projection/checkpoints/relay-checkpoint.ts";
import { deriveWebhookDeliveryId } from "../../../../shared/domain/events/ids.ts";
import { eventually } from "../../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../../support/receiver.ts";
import { createTestDatabase, getTestServers, makeTestRoot, type TestDatabase } from "../../../support/stack.ts";
import { createStoredMetadata } from "../../../support/stored-metadata.ts";
import { createWorld, type Endpoint, type World } from "../world.ts";

/** The tests use a separate log, because they store an unreadable event and delete a stream. */
describe("webhooks whose events cannot be read or appended", () => {
  let log: Awaited<ReturnType<typeof startLogServer>>;
  let database: TestDatabase;
  let world: World;
  let receiver: Receiver;
  let endpoint: Endpoint;
  let discardedCount = 0;

  before(async () => {
    log = await startLogServer({ dir: join(makeTestRoot(), "log"), host: "127.0.0.1", port: 0, shouldSync: false });
    database = await createTestDatabase();
    world = await createWorld({
      eventstoreUrl: `esdb://127.0.0.1:${log.port}?tls=false`,
      natsUrl: (await getTestServers()).natsUrl,
      databaseUrl: database.urls.projection,
    });
    receiver = await startReceiver();
    endpoint = await world.registerEndpoint(receiver.url);
    world.startAll({ retryScheduleSeconds: [0.05], onDiscarded: () => (discardedCount += 1) });
  });
  after(async () => {
    await world.close();
    await receiver.close();
    await log.stop();
    await database.drop();
  });

  /** Creates a failed delivery, replaces its event with the first event of the given stream, and requests a replay. */
  async function replayFrom(stream: string): Promise<string> {
    receiver.setDefaultReaction({ status: 500 });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.waitForDelivery(eventId, endpoint, ({ status }) => status === "failed");
    receiver.setDefaultReaction({});
    const { endpointId } = endpoint;
    const deliveryId = deriveWebhookDeliveryId(eventId, endpointId);
    await eventually("the fact that it failed", async () => (await readFactTypes(deliveryId)).length === 1);
    const sql = "UPDATE webhooks.delivery SET event_stream = $2, event_revision = 0 WHERE delivery_id = $1";
    await world.pool.query(sql, [deliveryId, stream]);
    await world.append(
      `webhookDelivery-${deliveryId}`,
      { type: "WebhookDeliveryReplayRequested", data: { deliveryId, endpointId } },
      { environment: "production", clinicId: endpoint.clinicId },
    );
    return deliveryId;
  }
  const readFactTypes = async (deliveryId: string) =>
    (await world.log.read(`webhookDelivery-${deliveryId}`)).map(({ type }) => type);
  /** Checks that the relay's checkpoint advances, which proves that every earlier message was acknowledged. */
  async function expectProgress(): Promise<void> {
    const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.waitForDelivery(eventId, endpoint, ({ status }) => status === "delivered");
    const [event] = await world.log.read(`appointment-${appointmentId}`);
    await eventually(
      "the relay's checkpoint",
      async () => (await readRelayCheckpoint(world.pool)).position >= event!.position,
    );
  }
  const createNote = () => jsonEvent({ type: "Noted", data: { text: "event of another program" } });

  it("a replay expires if the event's stream was deleted, and does not block later messages", async () => {
    const stream = `note-${randomUUID()}`;
    await world.client.appendToStream(stream, createNote());
    await world.client.tombstoneStream(stream);
    const deliveryId = await replayFrom(stream);
    await eventually("the fact", async () => (await readFactTypes(deliveryId)).at(-1) === "WebhookDeliveryExpired");
    await expectProgress();
  });

  it("an event of the outbox is discarded if its stream was deleted, and does not block later events", async () => {
    // The deletion of a stream of the service itself would stop the relay.
    const deletedStream = `note-${randomUUID()}`;
    await world.client.appendToStream(deletedStream, createNote());
    await world.client.tombstoneStream(deletedStream);
    const deliveryId = randomUUID();
    for (const stream of [deletedStream, `webhookDelivery-${deliveryId}`]) {
      const event = { type: "WebhookDeliveryExpired", data: { deliveryId, endpointId: endpoint.endpointId } };
      const values = [randomUUID(), stream, event, createStoredMetadata()];
      await world.pool.query("INSERT INTO webhooks.outbox VALUES ($1, $2, $3, $4, now())", values);
    }
    const isOutboxEmpty = async () => (await world.pool.query("SELECT FROM webhooks.outbox")).rowCount === 0;
    await eventually("an empty outbox", isOutboxEmpty);
    expect(await readFactTypes(deliveryId)).to.deep.equal(["WebhookDeliveryExpired"]);
    expect(discardedCount).to.equal(1);
    await expectProgress();
  });

  it("a replay request for an unreadable event is acknowledged, and does not block later messages", async () => {
    const stream = `note-${randomUUID()}`;
    await world.client.appendToStream(stream, createNote());
    const deliveryId = await replayFrom(stream);
    await expectProgress();
    expect((await readFactTypes(deliveryId)).at(-1)).to.equal("WebhookDeliveryReplayRequested");
  });
});
