import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { drainOutbox } from "../../../../projection/webhooks/record/drain-outbox.ts";
import {
  addToOutbox,
  createDeliveryFailedEvent,
  createDeliverySkippedEvent,
  type DeliveryRound,
  inTransaction,
  type OutboxEvent,
} from "../../../../projection/webhooks/record/outbox.ts";
import { type EventLog, LogUnavailableError } from "../../../../shared/eventstore/log.ts";
import { createWorld, type World } from "../world.ts";

/** No role runs, so that the tests decide when the outbox is drained. */
describe("draining the outbox", () => {
  let world: World;

  before(async () => {
    world = await createWorld();
  });
  after(() => world.close());
  beforeEach(() => world.pool.query("TRUNCATE webhooks.outbox"));

  const createRound = (): DeliveryRound => ({
    deliveryId: randomUUID(),
    endpointId: randomUUID(),
    clinicId: randomUUID(),
    environment: "production",
    causeId: randomUUID(),
    correlationId: randomUUID(),
    eventId: "7bd9f0a9-0d1c-4b0e-9e5c-9b0c3f6b8f11",
    eventStream: "appointment-1",
    eventRevision: 0n,
  });
  const add = (...events: OutboxEvent[]) => inTransaction(world.pool, (client) => addToOutbox(client, events));
  const drain = (log: EventLog = world.log) =>
    drainOutbox({ ...world, log, requireLog: async () => undefined, onDiscarded: () => undefined });
  const listTypes = ({ deliveryId }: DeliveryRound) => world.listEventTypes(`webhookDelivery-${deliveryId}`);

  it("an event waits for an earlier event of its stream that is tried again later", async () => {
    const round = createRound();
    await add(createDeliveryFailedEvent(round, 8, Date.now()));
    const read = (stream: string) =>
      stream.startsWith("webhookDelivery-") ? Promise.reject(new LogUnavailableError("down")) : Promise.resolve([]);
    await drain({ ...world.log, read });
    await add(createDeliverySkippedEvent(round, Date.now() + 1));
    await drain();
    expect(await listTypes(round)).to.deep.equal([]);
    await world.pool.query("UPDATE webhooks.outbox SET next_try_at = now()");
    await drain();
    expect(await listTypes(round)).to.deep.equal(["WebhookDeliveryFailed", "WebhookDeliverySkipped"]);
  });

  it("a row that somebody has locked keeps no other row in the outbox", async () => {
    const [lockedRound, otherRound] = [createRound(), createRound()];
    const lockedEvent = createDeliveryFailedEvent(lockedRound, 8, Date.now());
    await add(lockedEvent, createDeliveryFailedEvent(otherRound, 8, Date.now()));
    const listIds = async () =>
      (await world.pool.query<{ id: string }>("SELECT event_id AS id FROM webhooks.outbox")).rows.map(({ id }) => id);
    const locker = await world.pool.connect();
    try {
      await locker.query("SET idle_in_transaction_session_timeout = 0; BEGIN");
      await locker.query("SELECT FROM webhooks.outbox WHERE event_id = $1 FOR UPDATE", [lockedEvent.id]);
      await drain();
      expect(await listIds()).to.deep.equal([lockedEvent.id]);
      await drain();
    } finally {
      locker.release(true);
    }
    for (const round of [lockedRound, otherRound])
      expect(await listTypes(round)).to.deep.equal(["WebhookDeliveryFailed"]);
  });
});
