import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { connect, JSONCodec, type JsMsg, type NatsConnection, nanos } from "nats";
import { readCheckpoint } from "../../../projection/checkpoints/checkpoint.ts";
import { readRelayCheckpoint, setRelayCheckpoint } from "../../../projection/checkpoints/relay-checkpoint.ts";
import { deriveStreamNames } from "../../../projection/relay/event-stream.ts";
import { type EventMessage, MESSAGE_VERSION, relayMessageSchema } from "../../../projection/relay/message.ts";
import { addDeliveries } from "../../../projection/webhooks/match/match-event.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { createWorld, type Endpoint, type World } from "./world.ts";

/** Longer than the test, so that only returned messages are delivered again. Milliseconds. */
const ACK_TIMEOUT_MS = 600_000;

describe("a repeated message to the webhooks role", () => {
  let world: World;
  let receiver: Receiver;
  let natsConnection: NatsConnection;

  beforeEach(async () => {
    world = await createWorld();
    receiver = await startReceiver();
    natsConnection = await connect({ servers: world.natsUrl });
    world.start.projectors();
  });
  afterEach(async () => {
    await natsConnection.close();
    await world.close();
    await receiver.close();
  });

  /** Delivers a new appointment. Messages are processed in order, so all earlier messages are processed afterwards. */
  const deliver = async (endpoint: Endpoint) => {
    const appointment = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(appointment.eventId, endpoint, "delivered");
    return appointment;
  };

  /** Collects every message that is published from now on, including repeated messages. */
  const collectMessages = () => {
    const { subjectPrefix } = deriveStreamNames(world.databaseUrl);
    const messages: { subject: string; data: Uint8Array; content: Record<string, unknown> }[] = [];
    natsConnection.subscribe(`${subjectPrefix}.>`, {
      callback: (_, { subject, data }) => {
        messages.push({ subject, data, content: JSONCodec<Record<string, unknown>>().decode(data) });
      },
    });
    return messages;
  };

  it("a repeated event message does not add a second delivery", async () => {
    const messages = collectMessages();
    await natsConnection.flush();
    world.start.relay();
    world.start.webhooks();
    const endpoint = await world.registerEndpoint(receiver.url);
    const { eventId } = await deliver(endpoint);
    const message = messages.find(({ content }) => (content.body as { id?: string })?.id === eventId)!;
    for (let i = 0; i < 3; i += 1) await natsConnection.jetstream().publish(message.subject, message.data);
    await deliver(endpoint);
    expect(receiver.requests).to.have.length(2);
  });

  it("two messages for one event in the same batch add one delivery", async () => {
    const messages = collectMessages();
    await natsConnection.flush();
    world.start.relay();
    const endpoint = await world.registerEndpoint(receiver.url);
    await world.requestAppointment(endpoint.clinicId);
    const { content } = await eventually("the message", () => messages[0]);
    const event = relayMessageSchema.parse(content) as EventMessage;
    await eventually(
      "the read models",
      async () => (await readCheckpoint(world.pool, READ_MODEL_SCHEMA)).position >= event.position,
    );
    const { dueEndpoints } = await addDeliveries(world, [event, event], Date.now());
    expect(dueEndpoints).to.have.length(1);
  });

  it("a repeated replay message does not replay the delivery a second time", async () => {
    const messages = collectMessages();
    await natsConnection.flush();
    world.start.relay();
    world.start.webhooks({ retryScheduleSeconds: [] });
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.setDefaultReaction({ status: 500 });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "failed");
    const deliveryId = await world.requestReplay(eventId, endpoint);
    await world.waitForDelivery(
      eventId,
      endpoint,
      ({ status, attempts }) => status === "failed" && attempts.length === 2,
    );
    const message = messages.find(({ content }) => content.deliveryId === deliveryId)!;
    for (let i = 0; i < 3; i += 1) await natsConnection.jetstream().publish(message.subject, message.data);
    receiver.setDefaultReaction({});
    await deliver(endpoint);
    expect((await world.readDelivery(eventId, endpoint))?.attempts).to.have.length(2);
  });

  it("if a batch fails, the messages behind it return to the queue without waiting for their acknowledgement time", async () => {
    world.start.relay();
    world.start.webhooks();
    const endpoint = await world.registerEndpoint(receiver.url);
    await deliver(endpoint);
    const { name, consumerName } = deriveStreamNames(world.databaseUrl);
    const { consumers } = await natsConnection.jetstreamManager();
    await consumers.update(name, consumerName, { ack_wait: nanos(ACK_TIMEOUT_MS) });
    const countUnacknowledged = async () => (await consumers.info(name, consumerName)).num_ack_pending;
    const locker = await world.pool.connect();
    await locker.query("BEGIN; LOCK TABLE webhooks.delivery IN EXCLUSIVE MODE");
    const events = [await world.requestAppointment(endpoint.clinicId)];
    const blockedSql = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    await eventually("the first batch", async () => (await world.pool.query(`SELECT ${blockedSql}`)).rowCount === 1);
    for (let i = 0; i < 3; i += 1) events.push(await world.requestAppointment(endpoint.clinicId));
    await eventually("messages behind the batch", async () => (await countUnacknowledged()) === events.length);
    await locker.query(`SELECT pg_terminate_backend(pid) ${blockedSql}`);
    await locker.query("ROLLBACK");
    locker.release();
    for (const { eventId } of events) await world.awaitStatus(eventId, endpoint, "delivered");
  });

  it("a delivery is created again if a failover of Postgres lost it after its message was acknowledged", async () => {
    const roles = [world.start.relay(), world.start.webhooks()];
    const endpoint = await world.registerEndpoint(receiver.url);
    const readStoredCheckpoint = () => readRelayCheckpoint(world.pool);
    const event = await deliver(endpoint);
    const checkpoint = await eventually("a checkpoint", async () => {
      const storedCheckpoint = await readStoredCheckpoint();
      return storedCheckpoint.eventId === event.eventId && storedCheckpoint;
    });
    const lostEvent = await deliver(endpoint);
    await eventually("the checkpoint", async () => (await readStoredCheckpoint()).eventId === lostEvent.eventId);
    await world.stopRoles(...roles);
    // Restores the state of a replica that did not receive the last transactions of the relay and the dispatcher.
    const client = await world.pool.connect();
    await client.query("DELETE FROM webhooks.delivery WHERE event_id = $1", [lostEvent.eventId]);
    await setRelayCheckpoint(client, checkpoint);
    client.release();
    expect(await world.readDelivery(lostEvent.eventId, endpoint)).to.equal(undefined);
    world.start.relay();
    world.start.webhooks();
    await world.awaitStatus(lostEvent.eventId, endpoint, "delivered");
  });

  it("an event is delivered in order although the relay sent the acknowledged message of the event before it again", async () => {
    const relay = world.start.relay();
    const events = ["appointment.updated" as const];
    const endpoint = await world.registerEndpoint(receiver.url, { events, ordering: "appointment" });
    const firstEvent = await world.requestAppointment(endpoint.clinicId);
    const { appointmentId } = firstEvent;
    const schedule = { scheduledAt: "2030-05-01T10:00:00.000Z", durationMinutes: 45, reason: null };
    const eventId = await world.changeAppointment(appointmentId, "AppointmentRescheduled", schedule);
    const { name, consumerName } = deriveStreamNames(world.databaseUrl);
    const consumer = await eventually("the consumer", () =>
      natsConnection
        .jetstream()
        .consumers.get(name, consumerName)
        .catch(() => undefined),
    );
    /** Acknowledges the next message about the first event, as a dispatcher does. Returns all other messages. */
    const acknowledgeFirstEvent = async () => {
      const otherMessages: JsMsg[] = [];
      for (;;) {
        const message = await consumer.next({ expires: 20_000 });
        if (!message) throw new Error("The message is missing.");
        if (message.json<{ body: { id: string } }>().body.id !== firstEvent.eventId) otherMessages.push(message);
        else if (await message.ackAck()) break;
      }
      for (const message of otherMessages) message.nak();
    };
    await eventually("both messages", async () => (await consumer.info()).num_pending === 2);
    // The relay stops before it can move its checkpoint.
    await world.stopRoles(relay);
    await acknowledgeFirstEvent();
    world.start.relay();
    await acknowledgeFirstEvent();
    world.start.webhooks();
    await world.awaitStatus(eventId, endpoint, "delivered");
    await eventually("the checkpoint", async () => {
      return (await readRelayCheckpoint(world.pool)).eventId === eventId;
    });
    expect(receiver.requests).to.have.length(1);
  });

  it("an unreadable message is removed from the stream, and the next message is processed", async () => {
    world.start.relay();
    world.start.webhooks();
    const endpoint = await world.registerEndpoint(receiver.url);
    await deliver(endpoint);
    const { subjectPrefix, name, consumerName } = deriveStreamNames(world.databaseUrl);
    const [id, clinicId, environment] = [randomUUID(), endpoint.clinicId, "production"];
    const body = { id, type: "appointment.created", environment, clinicId, branchId: null };
    const event = { kind: "event", position: "0", stream: "appointment-1", revision: "0", correlationId: id, body };
    const publish = (text: string) =>
      natsConnection.jetstream().publish(`${subjectPrefix}.production.appointment.created`, Buffer.from(text));
    await publish("nonsense");
    const { seq } = await publish(JSON.stringify({ version: MESSAGE_VERSION, ...event }));
    await deliver(endpoint);
    const { consumers } = await natsConnection.jetstreamManager();
    await eventually("the removal", async () => (await consumers.info(name, consumerName)).ack_floor.stream_seq > seq);
  });

  it("a message about an event behind the end of the log is removed from the stream", async () => {
    const messages = collectMessages();
    await natsConnection.flush();
    world.start.relay();
    world.start.webhooks();
    const endpoint = await world.registerEndpoint(receiver.url);
    await deliver(endpoint);
    const { subject, content } = messages[0]!;
    const { name, consumerName } = deriveStreamNames(world.databaseUrl);
    const { consumers } = await natsConnection.jetstreamManager();
    for (const position of [String(2n ** 63n - 1n), String(2n ** 70n)]) {
      const impossibleMessage = { ...content, position };
      const { seq } = await natsConnection.jetstream().publish(subject, JSONCodec().encode(impossibleMessage));
      await deliver(endpoint);
      await eventually("removal", async () => (await consumers.info(name, consumerName)).ack_floor.stream_seq > seq);
    }
  });

  it("a message of a newer release waits in the stream, and the next message is processed", async () => {
    const messages = collectMessages();
    await natsConnection.flush();
    world.start.relay();
    const webhooks = world.start.webhooks();
    const endpoint = await world.registerEndpoint(receiver.url);
    await deliver(endpoint);
    const { subject, content } = messages[0]!;
    const newerMessage = { ...content, kind: "batch", version: Number(content.version) + 1 };
    const { seq } = await natsConnection.jetstream().publish(subject, JSONCodec().encode(newerMessage));
    await deliver(endpoint);
    await world.stopRoles(webhooks);
    const { name, consumerName } = deriveStreamNames(world.databaseUrl);
    const consumer = await natsConnection.jetstream().consumers.get(name, consumerName);
    const message = await consumer.next({ expires: 20_000 });
    expect(message?.seq).to.equal(seq);
    message?.ack();
  });
});
