import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { DifferentLogError } from "../../../../projection/checkpoints/same-log.ts";
import { replayDelivery } from "../../../../projection/webhooks/replay/replay-delivery.ts";
import type { CatalogEvent } from "../../../../shared/domain/events/catalog.ts";
import { deriveWebhookDeliveryId } from "../../../../shared/domain/events/ids.ts";
import { createLogger } from "../../../../shared/runtime/logger.ts";
import { eventually } from "../../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../../support/receiver.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../../../support/webhook-libraries.ts";
import { createWorld, type Endpoint, type World } from "../world.ts";

const REPLAY_REQUESTED = "WebhookDeliveryReplayRequested";

describe("the replay of a deleted delivery", () => {
  let world: World;
  let receiver: Receiver;

  before(async () => {
    world = await createWorld();
    world.startAll({ retryScheduleSeconds: [0.05] });
  });
  after(() => world.close());
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.close());

  const appendFact = (type: CatalogEvent["type"], deliveryId: string, { endpointId }: Endpoint, otherData = {}) =>
    world.append(
      `webhookDelivery-${deliveryId}`,
      { type, data: { deliveryId, endpointId, ...otherData } } as CatalogEvent,
      {
        environment: "production",
        clinicId: randomUUID(),
      },
    );
  const readFactTypes = async (deliveryId: string) =>
    (await world.log.read(`webhookDelivery-${deliveryId}`)).map(({ type }) => type);
  const awaitFacts = (deliveryId: string, ...types: string[]) =>
    eventually(`the facts ${types}`, async () => (await readFactTypes(deliveryId)).join() === types.join());

  /** Creates a failed delivery and deletes its row, as the service does after 30 days. */
  async function createDeletedDelivery(endpoint: Endpoint) {
    receiver.setDefaultReaction({ status: 500 });
    const appointment = await world.requestAppointment(endpoint.clinicId);
    const deliveryId = deriveWebhookDeliveryId(appointment.eventId, endpoint.endpointId);
    await awaitFacts(deliveryId, "WebhookDeliveryFailed");
    await world.pool.query("DELETE FROM webhooks.delivery WHERE delivery_id = $1", [deliveryId]);
    receiver.setDefaultReaction({});
    return { ...appointment, deliveryId };
  }

  it("a replay of a deleted delivery restores the delivery from the log and sends the webhook with the same id", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const { eventId, deliveryId } = await createDeletedDelivery(endpoint);
    await appendFact("WebhookDeliveryReplayRequested", deliveryId, endpoint);
    const { attempts } = await world.waitForDelivery(eventId, endpoint, ({ status }) => status === "delivered");
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
    expect([rowCount, await readFactTypes(deliveryId)]).to.deep.equal([0, []]);
  });

  it("a restored delivery is skipped while the endpoint is disabled, and can be replayed afterwards", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const { eventId, deliveryId } = await createDeletedDelivery(endpoint);
    const { endpointId } = endpoint;
    await world.append(`webhookEndpoint-${endpointId}`, {
      type: "WebhookEndpointDisabled",
      data: { endpointId, reason: "operator" },
    });
    await appendFact("WebhookDeliveryReplayRequested", deliveryId, endpoint);
    const skippedTypes = ["WebhookDeliveryFailed", "WebhookDeliveryReplayRequested", "WebhookDeliverySkipped"];
    await awaitFacts(deliveryId, ...skippedTypes);
    await world.append(`webhookEndpoint-${endpointId}`, {
      type: "WebhookEndpointEnabled",
      data: { endpointId },
    });
    await appendFact("WebhookDeliveryReplayRequested", deliveryId, endpoint);
    await world.waitForDelivery(eventId, endpoint, ({ status }) => status === "delivered");
  });

  const notRestorableCases: [string, (endpoint: Endpoint) => Promise<string>][] = [
    [
      "without a recorded source event",
      async (endpoint) => {
        const deliveryId = randomUUID();
        await appendFact("WebhookDeliveryFailed", deliveryId, endpoint, { attempts: 8 });
        return deliveryId;
      },
    ],
    [
      "with the source event of another delivery",
      async (endpoint) => {
        const { appointmentId } = await world.requestAppointment(endpoint.clinicId);
        const deliveryId = randomUUID();
        const source = { stream: `appointment-${appointmentId}`, revision: 0 };
        await appendFact("WebhookDeliverySkipped", deliveryId, endpoint, { source });
        return deliveryId;
      },
    ],
    [
      "with a missing source event",
      async (endpoint) => {
        const deliveryId = randomUUID();
        const source = { stream: `appointment-${randomUUID()}`, revision: 4 };
        await appendFact("WebhookDeliverySkipped", deliveryId, endpoint, { source });
        return deliveryId;
      },
    ],
  ];
  for (const [label, createDelivery] of notRestorableCases) {
    it(`if a replay is requested for a deleted delivery ${label}, the delivery expires and later messages are processed`, async () => {
      const endpoint = await world.registerEndpoint(receiver.url);
      const deliveryId = await createDelivery(endpoint);
      const [firstType] = await readFactTypes(deliveryId);
      await appendFact("WebhookDeliveryReplayRequested", deliveryId, endpoint);
      const factTypes = [firstType!, "WebhookDeliveryReplayRequested", "WebhookDeliveryExpired"];
      await awaitFacts(deliveryId, ...factTypes);
      // The next delivery proves that the request does not block messages and was processed only once.
      const { eventId } = await world.requestAppointment(endpoint.clinicId);
      await world.waitForDelivery(eventId, endpoint, ({ status }) => status === "delivered");
      expect(await readFactTypes(deliveryId)).to.deep.equal(factTypes);
      expect(receiver.listDeliveryRequests(deliveryId)).to.deep.equal([]);
    });
  }
});
