import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { AccessDeniedError, jsonEvent, NO_STREAM } from "@eventstore/db-client";
import { expect } from "chai";
import { readRelayCheckpoint } from "../../../projection/checkpoints/relay-checkpoint.ts";
import { EventHistories, RelayError } from "../../../projection/relay/event-histories.ts";
import {
  deleteQuarantinedEvents,
  quarantineEvent,
  readQuarantinedEvents,
} from "../../../projection/relay/quarantined-events.ts";
import { toMessage } from "../../../projection/relay/to-message.ts";
import type { Role } from "../../../projection/roles/role.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { eventually } from "../../support/eventually.ts";
import { type OwnLog, startSeparateLog } from "../../support/own-log.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";
import { runProjectionCommand } from "../engine-world.ts";
import { createWorld, type Endpoint, type World } from "../webhooks/world.ts";

const createRefusal = () => new AccessDeniedError(Object.assign(new Error("refused"), { code: 7 }) as never);

describe("an event that the relay cannot map", () => {
  /** A separate log. In the shared log, the relays of other tests would read the event. */
  let log: OwnLog;
  let world: World;
  let receiver: Receiver;
  let endpoint: Endpoint;
  let relay: Role;

  beforeEach(async () => {
    log = await startSeparateLog();
    world = await createWorld({ eventstoreUrl: log.eventstoreUrl });
    receiver = await startReceiver();
    endpoint = await world.registerEndpoint(receiver.url);
    world.start.projectors();
    relay = world.start.relay();
    world.start.webhooks();
  });
  afterEach(async () => {
    await world.close();
    await receiver.close();
    await log.stop();
  });

  const readStatus = async () => (await runProjectionCommand(world, "status")).stdout;
  const awaitDelivery = (eventId: string) => world.awaitStatus(eventId, endpoint, "delivered");
  /** Appends an event without a read of the stream, as another program might do. @returns the event's id */
  const appendEvent = async (stream: string, type: string, data: Record<string, string | number | null>) => {
    const id = randomUUID();
    const metadata = { ...createStoredMetadata(), environment: "production", clinicId: endpoint.clinicId };
    await world.client.appendToStream(stream, jsonEvent({ id, type, data, metadata }));
    return id;
  };
  const reschedule = (appointmentId: string) =>
    appendEvent(`appointment-${appointmentId}`, "AppointmentRescheduled", {
      appointmentId,
      scheduledAt: "2030-06-07T08:09:00.000Z",
      durationMinutes: 45,
      reason: null,
    });

  it("the relay quarantines the event and continues, and sends it when a later relay can map it", async () => {
    const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
    await awaitDelivery(eventId);
    // A new relay cannot map later events to public events, because the earlier events of the appointment are missing.
    await world.stopRoles(relay);
    const stream = `appointment-${appointmentId}`;
    await world.client.setStreamMetadata(stream, { truncateBefore: 100 }, { expectedRevision: NO_STREAM });
    const eventIds = [await reschedule(appointmentId), await reschedule(appointmentId)];
    relay = world.start.relay();
    await awaitDelivery((await world.requestAppointment(endpoint.clinicId)).eventId);
    expect(relay.getStatus().state).to.equal("running");
    expect(await readStatus()).to.match(
      /quarantined streams: 1\n {2}position \d+, stream appointment-.*, from revision 1 on: partners got no webhooks for 2 events; .*\n {4}AppointmentRescheduled: .*the stream does not end with this event$/m,
    );
    await world.client.setStreamMetadata(stream, {});
    await world.stopRoles(relay);
    world.start.relay();
    for (const id of eventIds) await awaitDelivery(id);
    await eventually("an empty list", async () => (await readStatus()).includes("quarantined streams: none"));
    expect(receiver.requests).to.have.length(4);
  });

  it("an event whose message is too large for NATS is quarantined once, and the checkpoint passes it", async () => {
    const installationId = randomUUID();
    const createData = (branchCount: number) => {
      const branchIds = Array<string>(branchCount).fill(randomUUID());
      return { installationId, scopes: ["webhooks:read"], animalAccess: "all", branchIds };
    };
    const emptyBytes = JSON.stringify(createData(0)).length;
    const data = createData(Math.floor((1024 * 1024 - 350 - emptyBytes) / 39));
    await world.append(`installation-${installationId}`, { type: "InstallationNarrowed", data } as CatalogEvent, {
      environment: "production",
      clinicId: endpoint.clinicId,
    });
    await eventually("the quarantine", async () => (await readStatus()).includes("larger than NATS allows"));
    const { eventId, appointmentId } = await world.requestAppointment(endpoint.clinicId);
    await awaitDelivery(eventId);
    const { position } = (await world.log.readLast(`appointment-${appointmentId}`))!;
    await eventually("the checkpoint", () => relay.getStatus().position === position);
    const readRecord = async () => (await world.pool.query("SELECT * FROM webhooks.quarantined_event")).rows;
    const record = await readRecord();
    await world.stopRoles(relay);
    relay = world.start.relay();
    await awaitDelivery((await world.requestAppointment(endpoint.clinicId)).eventId);
    expect(await readRecord()).to.deep.equal(record);
  });

  it("the records of sent events are deleted, except one that somebody has locked", async () => {
    const [locked, other] = [1n, 2n];
    const event = { stream: "appointment-1", revision: 0n, type: "AppointmentRequested" };
    for (const position of [locked, other]) await quarantineEvent(world.pool, { ...event, position }, "refused");
    const listRecords = async () => {
      const records = [];
      for await (const { position, since } of readQuarantinedEvents(world.pool)) records.push({ position, since });
      return records;
    };
    const records = await listRecords();
    const locker = await world.pool.connect();
    try {
      await locker.query("SET idle_in_transaction_session_timeout = 0; BEGIN");
      await locker.query("SELECT FROM webhooks.quarantined_event WHERE position = $1 FOR UPDATE", [locked]);
      await deleteQuarantinedEvents(world.pool, records);
      expect(await listRecords()).to.deep.equal(records.slice(0, 1));
    } finally {
      locker.release(true);
    }
  });

  it("events of a stream that the log refuses do not stop the relay or a replay", async () => {
    const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
    await awaitDelivery(eventId);
    await world.stopRoles(relay);
    const readStream = world.client.readStream.bind(world.client);
    const isRefused = (stream: string) => stream === `appointment-${appointmentId}`;
    const refuse = () => new Readable({ objectMode: true }).destroy(createRefusal());
    world.client.readStream = ((stream: string, options: object) =>
      isRefused(stream) ? refuse() : readStream(stream, options)) as typeof readStream;
    await world.pool.query("UPDATE webhooks.delivery SET status = 'failed'");
    await world.requestReplay(eventId, endpoint);
    const rescheduledId = await reschedule(appointmentId);
    relay = world.start.relay();
    await awaitDelivery((await world.requestAppointment(endpoint.clinicId)).eventId);
    await eventually("the quarantine", async () => (await readStatus()).includes("refused"));
    world.client.readStream = readStream;
    await world.stopRoles(relay);
    world.start.relay();
    await awaitDelivery(rescheduledId);
  });

  it("events of a stream for which the log does not answer do not stop the relay forever", async () => {
    const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
    await awaitDelivery(eventId);
    await world.stopRoles(relay);
    const readStream = world.client.readStream.bind(world.client);
    const unavailable = () =>
      new Readable({ objectMode: true }).destroy(Object.assign(new Error("unavailable"), { code: 14 }));
    world.client.readStream = ((stream: string, options: object) =>
      stream === `appointment-${appointmentId}` ? unavailable() : readStream(stream, options)) as typeof readStream;
    const rescheduledId = await reschedule(appointmentId);
    relay = world.start.relay();
    const { eventId: otherId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(otherId, endpoint, "delivered", 100_000);
    expect(await readStatus()).to.include("The event log does not answer for the stream");
    world.client.readStream = readStream;
    await world.stopRoles(relay);
    world.start.relay();
    await awaitDelivery(rescheduledId);
  });

  it("a quarantined event whose stream is read slowly does not delay new events in a new relay", async () => {
    const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
    await awaitDelivery(eventId);
    await world.stopRoles(relay);
    const stream = `appointment-${appointmentId}`;
    const [event] = await world.log.read(stream);
    await quarantineEvent(world.pool, event!, "test");
    const readStream = world.client.readStream.bind(world.client);
    const slowReads: Readable[] = [];
    const read = () => {
      slowReads.push(new Readable({ objectMode: true, read() {} }));
      return slowReads.at(-1);
    };
    world.client.readStream = ((name: string, options: object) =>
      name === stream ? read() : readStream(name, options)) as typeof readStream;
    relay = world.start.relay();
    await eventually("the slow read", () => slowReads.length > 0);
    await awaitDelivery((await world.requestAppointment(endpoint.clinicId)).eventId);
    await eventually("the checkpoint", async () => (await readRelayCheckpoint(world.pool)).position > event!.position);
    expect(await readStatus()).to.contain("quarantined streams: 1");
    world.client.readStream = readStream;
    for (const slowRead of slowReads) slowRead.destroy(createRefusal());
    await world.stopRoles(relay);
    world.start.relay();
    await eventually("an empty list", async () => (await readStatus()).includes("quarantined streams: none"));
  });

  it("the relay quarantines an event whose type contains a character that Postgres refuses", async () => {
    await appendEvent(`appointment-${randomUUID()}`, "Odd\0", {});
    await awaitDelivery((await world.requestAppointment(endpoint.clinicId)).eventId);
    await eventually("the quarantine", async () => (await readStatus()).includes("Odd\uFFFD"));
  });

  it("while the stream of an installation is quarantined, its endpoint gets no webhooks, and others do", async () => {
    const otherEndpoint = await world.registerEndpoint(receiver.url, { clinicId: endpoint.clinicId });
    await appendEvent(`installation-${endpoint.installationId}`, "InstallationForgotten", {});
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, otherEndpoint, "delivered");
    expect(await world.readDelivery(eventId, endpoint)).to.equal(undefined);
    expect(await readStatus()).to.contain(`stream installation-${endpoint.installationId}, from revision 1 on`);
  });

  it("an event whose stream was deleted cannot be mapped to a message", async () => {
    const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
    await awaitDelivery(eventId);
    await reschedule(appointmentId);
    const stream = `appointment-${appointmentId}`;
    const [, event] = await world.log.read(stream);
    await world.client.tombstoneStream(stream);
    const error = await toMessage(new EventHistories(world.log), event!).catch((error: Error) => error);
    expect(error).to.be.instanceOf(RelayError);
  });
});
