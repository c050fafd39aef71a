import { jsonEvent, NO_STREAM } from "@eventstore/db-client";
import { expect } from "chai";
import { rebuild } from "../../../projection/engine/rebuild.ts";
import { readQuarantinedStreams } from "../../../projection/quarantine/quarantined-streams.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { RelayError, toMessage } from "../../../projection/relay/to-message.ts";
import type { Role } from "../../../projection/roles/role.ts";
import { createMetrics } from "../../../projection/status/metrics.ts";
import { type Reporter, startReporter } from "../../../projection/status/reporter.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { eventually } from "../../support/eventually.ts";
import { type OwnLog, startSeparateLog } from "../../support/own-log.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";
import { runProjectionCommand } from "../engine-world.ts";
import { createWorld, type Endpoint, type RequestedAppointment, type World } from "../webhooks/world.ts";

const logger = createLogger("test", "silent");
const signal = new AbortController().signal;

describe("an event that projectors can process and the relay cannot map", () => {
  /** A separate log. In the shared log, an event that the relay cannot map would stop the relays of other tests. */
  let log: OwnLog;
  let world: World;
  let receiver: Receiver;
  let endpoint: Endpoint;
  let relay: Role;
  let reporter: Reporter;

  beforeEach(async () => {
    log = await startSeparateLog();
    world = await createWorld({ eventstoreUrl: log.eventstoreUrl });
    receiver = await startReceiver();
    endpoint = await world.registerEndpoint(receiver.url);
    const projectors = world.start.projectors();
    relay = world.start.relay();
    world.start.webhooks();
    reporter = startReporter({ ...world, roles: [projectors, relay], metrics: createMetrics(), logger });
  });
  afterEach(async () => {
    await reporter.stop();
    await world.close();
    await receiver.close();
    await log.stop();
  });

  const runOperatorCommand = (name: "quarantine" | "resume", position: bigint) =>
    runProjectionCommand(world, name, `${position}`, "--reason", "Written by another program", "--actor", "Ada");
  const readStatus = async () => (await runProjectionCommand(world, "status")).stdout;
  /** Appends an event without domain checks, as another program might do. */
  const appendEvent = (stream: string, type: string, data: object) => {
    const metadata = { ...createStoredMetadata(), environment: "production", clinicId: endpoint.clinicId };
    return world.client.appendToStream(stream, jsonEvent({ type, data: data as Record<string, string>, metadata }));
  };
  const reschedule = ({ appointmentId }: RequestedAppointment) =>
    appendEvent(`appointment-${appointmentId}`, "AppointmentRescheduled", {
      appointmentId,
      scheduledAt: "2030-06-07T08:09:00.000Z",
      durationMinutes: 45,
    });
  const readDurationMinutes = async ({ appointmentId }: RequestedAppointment) => {
    const { rows } = await world.pool.query<{ duration_minutes: number }>(
      `SELECT duration_minutes FROM ${READ_MODEL_SCHEMA}.appointment WHERE appointment_id = $1`,
      [appointmentId],
    );
    return rows[0]?.duration_minutes;
  };
  const awaitDelivery = (eventId: string) => world.awaitStatus(eventId, endpoint, "delivered");
  const requestAppointment = async () => {
    const appointment = await world.requestAppointment(endpoint.clinicId);
    await awaitDelivery(appointment.eventId);
    return appointment;
  };
  /**
   * Waits until the relay has stopped at the `AppointmentRescheduled` event of an appointment, the status shows this,
   * and the projectors have processed the event. @returns position of the event
   */
  const waitUntilStopped = async (appointment: RequestedAppointment) => {
    const event = await eventually("the relay stops", () => relay.getStatus().failedAt);
    expect(event).to.deep.include({
      stream: `appointment-${appointment.appointmentId}`,
      type: "AppointmentRescheduled",
    });
    const hint = `clinic projection quarantine ${event.position} --reason`;
    await eventually("the status", async () => (await readStatus()).includes(hint));
    await eventually("the row", async () => (await readDurationMinutes(appointment)) === 45);
    return event.position;
  };

  it("if only the relay stopped at an event, the quarantine of the event's stream applies only to the relay", async () => {
    const oddAppointment = await requestAppointment();
    // The relay cannot map the event to a public event, because the earlier events of the appointment are missing.
    const stream = `appointment-${oddAppointment.appointmentId}`;
    await world.client.setStreamMetadata(stream, { truncateBefore: 100 }, { expectedRevision: NO_STREAM });
    await reschedule(oddAppointment);
    const position = await waitUntilStopped(oddAppointment);
    const laterAppointment = await world.requestAppointment(endpoint.clinicId);
    const { code, stdout: out } = await runOperatorCommand("quarantine", position);
    expect(code).to.equal(0);
    expect(out).to.contain(
      `the relay skips stream ${stream} from revision 1 on. Partners get no webhooks for the stream.`,
    );
    await awaitDelivery(laterAppointment.eventId);
    await eventually("the relay goes on", () => relay.getStatus().state === "running");
    const types = receiver.requests.map(({ body }) => JSON.parse(body).type);
    expect(types).to.deep.equal(["appointment.created", "appointment.created"]);
    // The projectors can process the event, so neither the current read models nor a rebuild skip it.
    await rebuild({ ...world, models: readModels, logger, onProgress: () => undefined }, signal);
    expect(await readDurationMinutes(oddAppointment)).to.equal(45);
    expect((await readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA)).size).to.equal(0);
    expect(await readStatus()).to.match(
      /quarantined streams: 1\n {2}position \d+, stream appointment-.*, from revision 1 on: the relay sends no webhooks for the stream.*\n {4}AppointmentRescheduled: .*the stream does not end with this event$/m,
    );
  });

  it("after a quarantined stream is resumed, partners get the later events of the stream", async () => {
    const hiddenAppointment = await requestAppointment();
    const stream = `appointment-${hiddenAppointment.appointmentId}`;
    await world.client.setStreamMetadata(stream, { truncateBefore: 100 }, { expectedRevision: NO_STREAM });
    await reschedule(hiddenAppointment);
    const position = await waitUntilStopped(hiddenAppointment);
    await runOperatorCommand("quarantine", position);
    await requestAppointment();
    await world.client.setStreamMetadata(stream, {});
    const { code, stdout: out } = await runOperatorCommand("resume", position);
    expect(code).to.equal(0);
    expect(out).to.equal(`Resumed: stream ${stream} is no longer skipped from revision 1 on.\n`);
    expect(await readStatus()).to.contain("quarantined streams: none");
    const eventId = await world.changeAppointment(hiddenAppointment.appointmentId, "AppointmentConfirmed");
    await awaitDelivery(eventId);
    expect(receiver.requests).to.have.length(3);
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
    const goneAppointment = await requestAppointment();
    await reschedule(goneAppointment);
    const stream = `appointment-${goneAppointment.appointmentId}`;
    const [, event] = await world.log.read(stream);
    await world.client.tombstoneStream(stream);
    const error = await toMessage(world.log, event!).catch((error: Error) => error);
    expect(error).to.be.instanceOf(RelayError);
  });
});
