import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { pino } from "pino";
import { toMetadata } from "../../../command/handling/handle.ts";
import { createOutboxWaiter } from "../../../command/handling/outbox.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { EventLog, NewEvent } from "../../../shared/eventstore/log.ts";
import { createMigratedDatabase } from "../../support/migrated-database.ts";
import { createTestOperatorContext, sendRequest } from "../../support/partner.ts";
import type { TestDatabase } from "../../support/stack.ts";
import { serveCommandApp } from "./command-app.ts";
import { type EndpointWorld, startEndpointWorld } from "./endpoint-world.ts";

/** In each test, the webhooks role appends an event of its outbox after a decision has read the stream without it. */
describe("commands of partners while an event is in the outbox", () => {
  let { command, world, createEndpoint, readEvents } = {} as EndpointWorld;
  let database: TestDatabase;
  let outboxPool: pg.Pool;
  let commandPool: pg.Pool;
  let server: Awaited<ReturnType<typeof serveCommandApp>>;
  let waitingEvent: { stream: string; revision: bigint; newEvent: NewEvent } | undefined;

  before(async () => {
    ({ command, world, createEndpoint, readEvents } = await startEndpointWorld());
    database = await createMigratedDatabase();
    outboxPool = new pg.Pool({ connectionString: database.urls.projection, max: 2 });
    commandPool = new pg.Pool({ connectionString: database.urls.command, max: 2 });
    const log: EventLog = {
      ...command.log,
      async read(stream, ...options) {
        const events = await command.log.read(stream, ...options);
        if (waitingEvent?.stream !== stream) return events as never;
        void drainOutbox(waitingEvent);
        waitingEvent = undefined;
        return events as never;
      },
    };
    server = await serveCommandApp(command, {
      log,
      awaitOutbox: createOutboxWaiter(commandPool, pino({ enabled: false })),
    });
  });
  after(async () => {
    await server.stop();
    await Promise.all([outboxPool.end(), commandPool.end(), command.stop()]);
    await database.drop();
  });

  async function addToOutbox(stream: string, revision: bigint, event: CatalogEvent): Promise<void> {
    const metadata = toMetadata({ ...createTestOperatorContext(), clinicId: world.clinicId });
    const newEvent = { id: randomUUID(), event, metadata };
    await outboxPool.query(
      "INSERT INTO webhooks.outbox (event_id, stream, event, metadata, created_at) VALUES ($1, $2, $3, '{}', now())",
      [newEvent.id, stream, JSON.stringify(event)],
    );
    waitingEvent = { stream, revision, newEvent };
  }

  async function drainOutbox({ stream, revision, newEvent }: NonNullable<typeof waitingEvent>): Promise<void> {
    await command.log.append(stream, revision, [newEvent]);
    await outboxPool.query("DELETE FROM webhooks.outbox WHERE event_id = $1", [newEvent.id]);
  }

  const post = (path: string) =>
    sendRequest("POST", `${server.url}/${world.environment}/v1/webhook-endpoints/${path}`, world.headers);

  it("a delivery is replayed although the event that it failed is still in the outbox", async () => {
    const [endpointId, deliveryId] = [await createEndpoint(), randomUUID()];
    const failure: CatalogEvent = { type: "WebhookDeliveryFailed", data: { deliveryId, endpointId, attempts: 8 } };
    await addToOutbox(`webhookDelivery-${deliveryId}`, -1n, failure);
    expect((await post(`${endpointId}/deliveries/${deliveryId}/replay`)).status).to.equal(202);
  });

  it("an endpoint is enabled after the event in the outbox that disables it", async () => {
    const endpointId = await createEndpoint();
    const disabling: CatalogEvent = { type: "WebhookEndpointDisabled", data: { endpointId, reason: "gone" } };
    await addToOutbox(`webhookEndpoint-${endpointId}`, 0n, disabling);
    const { status, body } = await post(`${endpointId}/enable`);
    expect([status, body.endpoint.status]).to.deep.equal([200, "active"]);
    expect((await readEvents(endpointId)).at(-1)?.type).to.equal("WebhookEndpointEnabled");
  });

  it("an unknown delivery returns 409 while Postgres is unavailable", async () => {
    const logger = pino({ enabled: false });
    const connectionString = "postgres://nobody:nothing@127.0.0.1:9/clinic";
    const awaitOutbox = createOutboxWaiter(new pg.Pool({ connectionString }), logger);
    const lonelyServer = await serveCommandApp(command, { awaitOutbox });
    const path = `webhook-endpoints/${await createEndpoint()}/deliveries/${randomUUID()}/replay`;
    const { status } = await sendRequest("POST", `${lonelyServer.url}/${world.environment}/v1/${path}`, world.headers);
    await lonelyServer.stop();
    expect(status).to.equal(409);
  });

  it("a replay returns 503 if the event that the delivery failed stays in the outbox, and 409 for other endpoints", async () => {
    const [endpointId, otherEndpointId, deliveryId] = [await createEndpoint(), await createEndpoint(), randomUUID()];
    const failure: CatalogEvent = { type: "WebhookDeliveryFailed", data: { deliveryId, endpointId, attempts: 8 } };
    await addToOutbox(`webhookDelivery-${deliveryId}`, -1n, failure);
    waitingEvent = undefined;
    const { status, body } = await post(`${endpointId}/deliveries/${deliveryId}/replay`);
    expect([status, body.error]).to.deep.equal([503, "event_log_unavailable"]);
    expect((await post(`${otherEndpointId}/deliveries/${deliveryId}/replay`)).status).to.equal(409);
  });
});
