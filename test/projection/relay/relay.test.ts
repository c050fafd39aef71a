import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { connect } from "nats";
import type { Servers } from "../../../deploy/local/servers/servers.ts";
import { deriveStreamNames } from "../../../projection/nats/event-stream.ts";
import { MESSAGE_HEADERS, publishEvents, selectEvents } from "../../../projection/relay/publish.ts";
import { renderPublicEvent, type WebhookBody } from "../../../shared/partner-api/webhook-body.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { startTestServers } from "../../support/stack.ts";
import { createWorld, type Endpoint, type World } from "../webhooks/world.ts";

/** Uses separate servers, because the tests stop servers and append events that no projector can process. */
describe("relay and webhooks during failures of servers", () => {
  let servers: Servers;
  let world: World;
  let receiver: Receiver;
  let endpoint: Endpoint;

  before(async () => {
    servers = await startTestServers({});
    const { eventstoreUrl, natsUrl, databaseUrls } = servers;
    world = await createWorld({ eventstoreUrl, natsUrl, databaseUrl: databaseUrls.projection });
    receiver = await startReceiver();
    endpoint = await world.registerEndpoint(receiver.url);
    world.start.projectors();
  });
  after(async () => {
    await servers.stop();
  });
  beforeEach(() => {
    receiver.requests.length = 0;
  });

  const requestAppointments = async (count: number) => {
    const appointments = await Promise.all(
      Array.from({ length: count }, () => world.requestAppointment(endpoint.clinicId)),
    );
    return appointments.map(({ eventId }) => eventId);
  };
  const readMessages = async () => {
    const { name } = deriveStreamNames(world.databaseUrl);
    const connection = await connect({ servers: servers.natsUrl });
    try {
      const jetStream = connection.jetstream();
      const { state } = await (await jetStream.jetstreamManager()).streams.info(name);
      const consumer = await jetStream.consumers.get(name);
      const messages = [];
      for (let count = 0; count < state.messages; count += 1) {
        const message = await consumer.next();
        if (!message) break;
        const [position, previousPosition] = [MESSAGE_HEADERS.position, MESSAGE_HEADERS.previousPosition].map(
          (header) => message.headers?.get(header),
        );
        if (!message.subject.includes(".appointment.")) continue;
        messages.push({ subject: message.subject, body: message.json<WebhookBody>(), position, previousPosition });
      }
      return messages;
    } catch (error) {
      // The relay has not created the stream again.
      if ((error as Error).message === "stream not found") return [];
      throw error;
    } finally {
      await connection.close();
    }
  };
  const awaitDeliveries = async (eventIds: string[]) => {
    for (const eventId of eventIds) await world.awaitStatus(eventId, endpoint, "delivered");
    // Each delivery was sent exactly once.
    const sentIds = receiver.requests.map(({ body }) => JSON.parse(body).id as string);
    expect(sentIds.filter((id) => eventIds.includes(id)).sort()).to.deep.equal(eventIds.toSorted());
  };

  it("each public event gives one message with the body of the webhook, in the order of the log", async () => {
    const relay = world.start.relay();
    const eventIds: string[] = [];
    for (let n = 0; n < 8; n += 1) {
      eventIds.push(...(await requestAppointments(1)));
      // Partners do not receive this event, so it must not look like a gap.
      await world.changeEndpoint(endpoint, "WebhookEndpointEnabled");
    }
    const messages = await eventually("all messages", async () => {
      const found = await readMessages();
      return found.length >= eventIds.length && found;
    });
    expect(messages.map(({ body }) => body.id)).to.deep.equal(eventIds);
    expect(new Set(messages.map(({ subject }) => subject))).to.deep.equal(
      new Set([`${deriveStreamNames(world.databaseUrl).subjectPrefix}.production.appointment.created`]),
    );
    const positions = messages.map(({ position }) => position);
    expect(messages.slice(1).map(({ previousPosition }) => previousPosition)).to.deep.equal(positions.slice(0, -1));
    const webhooksRole = world.start.webhooks();
    await awaitDeliveries(eventIds);
    expect(receiver.requests.map(({ body }) => JSON.parse(body).id).sort()).to.deep.equal([...eventIds].sort());
    expect(new Set(receiver.requests.map(({ body }) => body))).to.deep.equal(
      new Set(messages.map(({ body }) => JSON.stringify(body))),
    );
    await world.stopRoles(relay, webhooksRole);
  });

  it("messages that NATS lost are published a second time, and each event is delivered once", async () => {
    const relay = world.start.relay();
    await eventually("the relay", () => relay.getStatus().state === "running");
    const eventIds = await requestAppointments(8);
    const listLatest = async () => (await readMessages()).map(({ body }) => body.id).slice(-8);
    await eventually("all published", async () => includesAll(await listLatest(), eventIds));
    await servers.components.nats.stop();
    fs.rmSync(path.join(servers.context.paths.nats, "jetstream"), { recursive: true });
    await servers.components.nats.start();
    await eventually("all published again", async () => includesAll(await listLatest(), eventIds));
    const webhooksRole = world.start.webhooks();
    await awaitDeliveries(eventIds);
    await world.stopRoles(relay, webhooksRole);
  });

  it("webhooks start and continue while NATS is down", async () => {
    await servers.components.nats.stop();
    const relay = world.start.relay();
    const webhooksRole = world.start.webhooks();
    const eventIds = await requestAppointments(3);
    await awaitDeliveries(eventIds);
    expect(webhooksRole.getStatus()).to.include({ state: "running", detail: null });
    await eventually("the relay waits", () => relay.getStatus().detail === "waits");
    await servers.components.nats.start();
    await eventually("the messages", async () =>
      includesAll(
        (await readMessages()).map(({ body }) => body.id),
        eventIds,
      ),
    );
    await world.stopRoles(relay, webhooksRole);
  });

  it("an event whose message is larger than NATS allows is set aside, and the others are published", async () => {
    const [first, second] = await requestAppointments(2);
    const [small, large] = await eventually("the rows", async () => {
      const { events } = await selectEvents(world.pool, -1n);
      const found = [first, second].map((id) => events.find(({ eventId }) => eventId === id));
      return found.every((event) => event !== undefined) && found;
    });
    const published: string[] = [];
    const jetStream = {
      publish: async (_: string, __: unknown, { msgID }: { msgID: string }) => ({ seq: published.push(msgID) }),
    };
    const deps = {
      pool: world.pool,
      jetStream: jetStream as never,
      stream: deriveStreamNames(world.databaseUrl),
      logger: world.logger,
    };
    const size = JSON.stringify(renderPublicEvent(small!.event, "production")).length;
    const largeEvent = { ...large!, event: { ...large!.event, data: { text: "x".repeat(size) } } };
    expect(await publishEvents({ ...deps, maxPayloadBytes: size }, [largeEvent, small!], -1n)).to.equal(1n);
    expect(published).to.deep.equal([first]);
    const { rows } = await world.pool.query("SELECT event_id, cause FROM webhooks.late_event WHERE needs_message");
    expect(rows).to.deep.equal([
      {
        event_id: second,
        cause: "The message is larger than NATS allows (max_payload, or max_msg_size of the stream).",
      },
    ]);
    await world.pool.query("DELETE FROM webhooks.late_event");
  });

  it("an event whose message is larger than an operator's limit for the stream does not stop the relay", async () => {
    const { name } = deriveStreamNames(world.databaseUrl);
    const connection = await connect({ servers: servers.natsUrl });
    const jsm = await connection.jetstreamManager();
    const relay = world.start.relay();
    await eventually("the stream", () => jsm.streams.info(name).catch(() => undefined));
    const { config } = await jsm.streams.info(name);
    await jsm.streams.update(name, { ...config, max_msg_size: 100 });
    const [refusedId] = await requestAppointments(1);
    await eventually("the event set aside", async () => {
      const { rowCount } = await world.pool.query(
        "SELECT FROM webhooks.late_event WHERE event_id = $1 AND needs_message AND cause LIKE '%max_msg_size%'",
        [refusedId],
      );
      return rowCount === 1;
    });
    await jsm.streams.update(name, { ...config, max_msg_size: -1 });
    const laterIds = await requestAppointments(1);
    await world.pool.query("UPDATE webhooks.late_event SET next_try_at = now()");
    await eventually("both messages", async () => {
      const ids = (await readMessages()).map(({ body }) => body.id);
      return includesAll(ids, [...laterIds, refusedId as string]);
    });
    await connection.close();
    await world.stopRoles(relay);
  });

  it("relay and webhooks continue after an outage of NATS, the database or the log", async () => {
    const relay = world.start.relay();
    const webhooksRole = world.start.webhooks();
    await awaitDeliveries(await requestAppointments(3));
    for (const name of ["nats", "postgres", "eventstore"] as const) {
      receiver.requests.length = 0;
      const eventIds = await requestAppointments(4);
      await servers.components[name].kill();
      await servers.components[name].start();
      eventIds.push(...(await eventually("the log", () => requestAppointments(3).catch(() => undefined))));
      await awaitDeliveries(eventIds).catch((error: Error) => {
        throw new Error(`${name}: ${error.message}`, { cause: error });
      });
    }
    await eventually("both roles run", () =>
      [relay, webhooksRole].every((role) => role.getStatus().state === "running" && role.getStatus().detail === null),
    );
    await world.stopRoles(relay, webhooksRole);
  });

  it("a standby relay takes over when the leader stops", async () => {
    const firstRelay = world.start.relay();
    await eventually("the leader", () => firstRelay.getStatus().state === "running");
    const secondRelay = world.start.relay();
    await eventually("the standby", () => secondRelay.getStatus().state === "standby");
    await world.stopRoles(firstRelay);
    const eventIds = await requestAppointments(3);
    await eventually("the messages", async () =>
      includesAll(
        (await readMessages()).map(({ body }) => body.id),
        eventIds,
      ),
    );
    expect(secondRelay.getStatus().state).to.equal("running");
    await world.stopRoles(secondRelay);
  });
});

const includesAll = (ids: string[], wanted: string[]) => wanted.every((id) => ids.includes(id));
