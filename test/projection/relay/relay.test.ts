import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { connect } from "nats";
import type { Servers } from "../../../deploy/local/servers/servers.ts";
import { readRelayCheckpoint } from "../../../projection/checkpoints/relay-checkpoint.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { startTestServers } from "../../support/stack.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";
import { createWorld, type Endpoint, type World } from "../webhooks/world.ts";

const METADATA = { ...createStoredMetadata(), environment: "production" };

/** These tests start separate servers, because they stop servers and append events that no projector can process. */
describe("relay and dispatchers during failures of servers", () => {
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
    await world.close();
    await receiver.close();
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
  const awaitDeliveries = async (eventIds: string[]) => {
    for (const eventId of eventIds) {
      await world.awaitStatus(eventId, endpoint, "delivered");
    }
    const webhookIds = receiver.requests.map(({ headers }) => headers["webhook-id"]);
    expect(new Set(webhookIds).size).to.equal(eventIds.length);
    // Each delivery was sent exactly once.
    expect(webhookIds.length).to.equal(eventIds.length);
  };

  it("the relay's checkpoint moves when deliveries are in the database, not when messages are published", async () => {
    const relay = world.start.relay();
    const eventIds = await requestAppointments(8);
    await eventually("the relay", () => relay.getStatus().state === "running");
    const positionBefore = (await readRelayCheckpoint(world.pool)).position;
    const webhooksRole = world.start.webhooks();
    await awaitDeliveries(eventIds);
    await eventually("the checkpoint", async () => (await readRelayCheckpoint(world.pool)).position > positionBefore);
    await world.stopRoles(relay, webhooksRole);
  });

  it("messages that NATS lost are published a second time, and each event is delivered once", async () => {
    const relay = world.start.relay();
    await eventually("the relay", () => relay.getStatus().state === "running");
    const eventIds = await requestAppointments(8);
    // The messages are published but not consumed when NATS loses them.
    await eventually("all published", () => countMessages(servers).then((count) => count >= 8));
    await servers.components.nats.stop();
    fs.rmSync(path.join(servers.context.paths.nats, "jetstream"), { recursive: true });
    await servers.components.nats.start();
    const webhooksRole = world.start.webhooks();
    await awaitDeliveries(eventIds);
    await world.stopRoles(relay, webhooksRole);
  });

  it("relay and dispatchers continue after an outage of NATS, the database or the log", async () => {
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

  it("relay and dispatchers stop in time while all servers are unavailable", async () => {
    const roles = [world.start.relay(), world.start.webhooks()];
    await awaitDeliveries(await requestAppointments(1));
    await Promise.all(Object.values(servers.components).map((component) => component.stop()));
    // The public detail contains no error message. The operator's status contains the message.
    const expectedTexts = ["waits", "waits for the database"];
    await eventually("both wait", () => roles.every((role) => expectedTexts.includes(`${role.getStatus().detail}`)));
    await eventually("the error", () =>
      /ECONN|CONNECTION|connection|UNAVAILABLE/.test(`${roles[1]?.getStatus().lastError?.message}`),
    );
    // The roles must stop even though no server is available.
    await world.stopRoles(...roles);
    await Promise.all(Object.values(servers.components).map((component) => component.start()));
  });

  it("a standby relay takes over when the leader stops", async () => {
    const firstRelay = world.start.relay();
    await eventually("the leader", () => firstRelay.getStatus().state === "running");
    const secondRelay = world.start.relay();
    await eventually("the standby", () => secondRelay.getStatus().state === "standby");
    const webhooksRole = world.start.webhooks();
    await world.stopRoles(firstRelay);
    await awaitDeliveries(await requestAppointments(3));
    expect(secondRelay.getStatus().state).to.equal("running");
    await world.stopRoles(secondRelay, webhooksRole);
  });

  it("the relay skips events that are not sent to partners", async () => {
    const relay = world.start.relay();
    const appointmentId = randomUUID();
    await world.client.appendToStream(
      `appointment-${appointmentId}`,
      jsonEvent({
        type: "AppointmentConfirmed",
        data: { appointmentId },
        metadata: METADATA,
      }),
    );
    const webhooksRole = world.start.webhooks();
    await awaitDeliveries(await requestAppointments(1));
    await world.stopRoles(relay, webhooksRole);
  });

  it("the relay quarantines an unreadable event, and sends the events of other streams", async () => {
    const eventIds = await requestAppointments(5);
    const stream = `appointment-${randomUUID()}`;
    const unreadableEvent = jsonEvent({ type: "AppointmentConfirmed", data: { nonsense: 1 }, metadata: METADATA });
    await world.client.appendToStream(stream, unreadableEvent);
    world.start.webhooks();
    world.start.relay();
    const laterEventIds = await requestAppointments(2);
    await awaitDeliveries([...eventIds, ...laterEventIds]);
    const { rows } = await world.pool.query("SELECT stream, cause FROM webhooks.quarantined_event");
    expect(rows).to.have.length(1);
    expect(rows[0].stream).to.equal(stream);
    expect(rows[0].cause).to.contain("appointmentId");
  });
});

async function countMessages({ natsUrl }: Servers): Promise<number> {
  const connection = await connect({ servers: natsUrl });
  const manager = await connection.jetstreamManager();
  let count = 0;
  for await (const stream of manager.streams.list()) count += stream.state.messages;
  await connection.close();
  return count;
}
