import { expect } from "chai";
import { connect, headers, type NatsConnection } from "nats";
import { deriveStreamNames } from "../../../projection/nats/event-stream.ts";
import { MESSAGE_HEADERS } from "../../../projection/relay/publish.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../support/eventually.ts";
import { startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { createWorld, type Endpoint, type World } from "./world.ts";

/** Deliveries depend only on rows in Postgres. NATS messages only wake the dispatcher. */
describe("deliveries if messages in NATS are wrong or missing", () => {
  let world: World;
  const receiver = useResource(startReceiver, "test");
  let natsConnection: NatsConnection;

  async function setUp(natsUrl?: string): Promise<Endpoint> {
    world = await createWorld(natsUrl === undefined ? {} : { natsUrl });
    return world.registerEndpoint(receiver.url, { ordering: "appointment" });
  }
  afterEach(async () => {
    await natsConnection?.close();
  });

  /** Requests and confirms an appointment, and waits for both deliveries. @returns the event ids */
  async function deliver({ clinicId }: Endpoint, endpoint: Endpoint): Promise<string[]> {
    const { appointmentId, eventId } = await world.requestAppointment(clinicId);
    const eventIds = [eventId, await world.changeAppointment(appointmentId, "AppointmentConfirmed")];
    for (const id of eventIds) await world.awaitStatus(id, endpoint, "delivered");
    return eventIds;
  }
  const expectRequests = (eventIds: readonly string[]) =>
    expect(receiver.requests.map(({ body }) => JSON.parse(body).id)).to.deep.equal(eventIds);

  it("repeated, late, unreadable and forged messages neither add, repeat, reorder nor skip a delivery", async () => {
    const endpoint = await setUp();
    natsConnection = await connect({ servers: world.natsUrl });
    const { subjectPrefix } = deriveStreamNames(world.databaseUrl);
    const messages: { subject: string; data: Uint8Array; position: string }[] = [];
    natsConnection.subscribe(`${subjectPrefix}.>`, {
      callback: (_, { subject, data, headers: messageHeaders }) => {
        messages.push({ subject, data, position: messageHeaders?.get(MESSAGE_HEADERS.position) ?? "" });
      },
    });
    await natsConnection.flush();
    world.startAll();
    const eventIds = await deliver(endpoint, endpoint);
    const findMessage = (id?: string) => messages.find(({ data }) => Buffer.from(data).includes(id!));
    const second = await eventually("the messages", () => findMessage(eventIds[1]));
    const first = findMessage(eventIds[0])!;
    const publish = async (data: Uint8Array, position?: bigint | string, previousPosition = second.position) => {
      const messageHeaders = headers();
      if (position !== undefined) messageHeaders.set(MESSAGE_HEADERS.position, String(position));
      messageHeaders.set(MESSAGE_HEADERS.previousPosition, previousPosition);
      await natsConnection.jetstream().publish(first.subject, data, { headers: messageHeaders });
    };
    for (const { data, position } of [second, first, second]) await publish(data, position, "-1");
    for (const position of [undefined, "", "nonsense", "-1", "1.5", 2n ** 63n - 1n, 2n ** 70n, 10n ** 18n])
      await publish(Buffer.from("nonsense"), position);
    const laterIds = await deliver(endpoint, endpoint);
    await publish(first.data, 10n ** 18n);
    expectRequests([...eventIds, ...laterIds, ...(await deliver(endpoint, endpoint))]);
    const { rows } = await world.pool.query(
      `SELECT c.position <= r.position AS "isReached" FROM webhooks.checkpoint c, ${READ_MODEL_SCHEMA}.checkpoint r`,
    );
    expect(rows).to.deep.equal([{ isReached: true }, { isReached: true }]);
  });

  it("all events are delivered although messages are lost, and the stream is purged and deleted", async () => {
    const endpoint = await setUp();
    natsConnection = await connect({ servers: world.natsUrl });
    const { streams } = await natsConnection.jetstreamManager();
    const { name } = deriveStreamNames(world.databaseUrl);
    world.start.projectors();
    world.start.webhooks();
    const eventIds = await deliver(endpoint, endpoint);
    const relay = world.start.relay();
    /** Waits until the NATS stream contains all public events. */
    const awaitMessages = () =>
      eventually("the messages", async () => {
        const { rowCount } = await world.pool.query(
          `SELECT FROM ${READ_MODEL_SCHEMA}.public_event WHERE type IS NOT NULL`,
        );
        return (await streams.info(name).catch(() => undefined))?.state.messages === rowCount;
      });
    await awaitMessages();
    eventIds.push(...(await deliver(endpoint, endpoint)));
    await streams.purge(name);
    eventIds.push(...(await deliver(endpoint, endpoint)));
    await streams.delete(name);
    eventIds.push(...(await deliver(endpoint, endpoint)));
    await awaitMessages();
    await world.stopRoles(relay);
    eventIds.push(...(await deliver(endpoint, endpoint)));
    expectRequests(eventIds);
  });

  it("if a failover of Postgres loses the last transactions, their deliveries are added again", async () => {
    const endpoint = await setUp();
    world.startAll();
    const readCheckpoint = async () =>
      (await world.pool.query("SELECT position, event_id FROM webhooks.checkpoint WHERE name = 'deliveries'")).rows[0];
    await deliver(endpoint, endpoint);
    const { position, event_id } = await readCheckpoint();
    const [lostId] = await deliver(endpoint, endpoint);
    await world.pool.query(
      `WITH lost AS (DELETE FROM webhooks.delivery WHERE event_position > $1)
       UPDATE webhooks.checkpoint SET position = $1, event_id = $2 WHERE name = 'deliveries'`,
      [position, event_id],
    );
    await world.awaitStatus(lostId!, endpoint, "delivered");
  });
});
