import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { deleteLostState } from "../../../projection/adoption/adopt-log.ts";
import { recordMissingEvents, setEventAside } from "../../../projection/checkpoints/late-events.ts";
import { readWebhookCheckpoint, takeOverCheckpoint } from "../../../projection/checkpoints/webhook-checkpoints.ts";
import { startProjectors } from "../../../projection/engine/projectors.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import type { Role } from "../../../projection/roles/role.ts";
import { inTransaction } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../support/eventually.ts";
import { startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { runProjectionCommand } from "../engine-world.ts";
import { createWorld, type Endpoint } from "./world.ts";

/** Read models of a faulty release, which cannot process AppointmentConfirmed. */
const brokenModels = readModels.map((model) =>
  model.table === "appointment"
    ? {
        ...model,
        on: {
          ...model.on,
          AppointmentConfirmed: () => {
            throw new Error("This release is broken.");
          },
        },
      }
    : model,
);

const FORMER_SCHEMA = "read_model_former_release";

describe("events that the read models contain late", () => {
  const world = useResource(createWorld, "test");
  const receiver = useResource(startReceiver, "test");
  let endpoint: Endpoint;
  let brokenProjectors: Role;

  beforeEach(async () => {
    endpoint = await world.registerEndpoint(receiver.url, { ordering: "appointment" });
    brokenProjectors = startProjectors({ ...world, models: brokenModels });
  });
  afterEach(async () => {
    await brokenProjectors.stop();
  });

  /** Requests an appointment, and confirms and starts it. @returns ids of its events */
  const createQuarantinedAppointment = async () => {
    const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
    const lateIds = [
      await world.changeAppointment(appointmentId, "AppointmentConfirmed"),
      await world.changeAppointment(appointmentId, "AppointmentCheckedIn"),
    ];
    return { appointmentId, eventId, lateIds };
  };
  const countLateEvents = async () => (await world.pool.query("SELECT FROM webhooks.late_event")).rowCount;
  const listSentIds = () => receiver.requests.map(({ body }) => JSON.parse(body).id as string);

  it("the webhooks of a quarantined stream are sent in order after a rebuild that includes it, and each only once", async () => {
    world.start.webhooks();
    const relay = world.start.relay();
    const { appointmentId, eventId, lateIds } = await createQuarantinedAppointment();
    const { eventId: otherId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(otherId, endpoint, "delivered");
    await brokenProjectors.stop();
    expect((await runProjectionCommand(world, "rebuild")).code).to.equal(0);
    world.start.projectors();
    const laterId = await world.changeAppointment(appointmentId, "AppointmentPutInWaiting");
    await world.awaitStatus(laterId, endpoint, "delivered");
    expect(listSentIds().filter((id) => id !== otherId)).to.deep.equal([eventId, ...lateIds, laterId]);
    await eventually("no late events", async () => (await countLateEvents()) === 0);
    expect(relay.getStatus().state).to.equal("running");
  });

  it("the first process of another release sends what the former release had quarantined, and nothing else again", async () => {
    const { eventId, lateIds } = await createQuarantinedAppointment();
    await world.awaitRows("quarantined_stream", "events >= 2");
    const webhooks = world.start.webhooks();
    await world.awaitStatus(eventId, endpoint, "delivered");
    await world.stopRoles(webhooks);
    // Gives the read models of the broken release another name, and builds those of this release.
    await brokenProjectors.stop();
    await world.pool.query(`CREATE SCHEMA ${FORMER_SCHEMA}`);
    for (const table of ["public_event", "quarantined_stream"])
      await world.pool.query(`CREATE TABLE ${FORMER_SCHEMA}.${table} AS TABLE ${READ_MODEL_SCHEMA}.${table}`);
    await world.pool.query("UPDATE webhooks.checkpoint SET read_models = $1", [FORMER_SCHEMA]);
    expect((await runProjectionCommand(world, "rebuild")).code).to.equal(0);
    world.start.projectors();
    await world.pool.query("DELETE FROM webhooks.late_event");
    world.start.webhooks();
    for (const id of lateIds) await world.awaitStatus(id, endpoint, "delivered");
    expect(listSentIds()).to.deep.equal([eventId, ...lateIds]);
    expect((await readWebhookCheckpoint(world.pool, "deliveries")).readModels).to.equal(READ_MODEL_SCHEMA);
  });

  it("a release takes over only when its read models include the checkpoint", async () => {
    await world.pool.query("UPDATE webhooks.checkpoint SET read_models = 'read_model_x', position = 1000000000");
    const error = await takeOverCheckpoint(world.pool, "deliveries").catch((error: Error) => error);
    expect(error).to.be.an("error").with.property("message").that.contains("do not include all events");
  });

  it("read models that were dropped give no late events", async () => {
    await inTransaction(world.pool, (client) =>
      recordMissingEvents(client, "read_model_dropped", { name: "deliveries", position: 1n }),
    );
    expect(await countLateEvents()).to.equal(0);
  });

  it("an event that was set aside by both roles needs both", async () => {
    const event = { eventId: randomUUID(), position: 1n };
    await setEventAside(world.pool, event, "messages", "It is too large.");
    await setEventAside(world.pool, event, "deliveries", "Postgres refuses it.");
    const { rows } = await world.pool.query(
      'SELECT needs_message AS "needsMessage", needs_deliveries AS "needsDeliveries" FROM webhooks.late_event',
    );
    expect(rows).to.deep.equal([{ needsMessage: true, needsDeliveries: true }]);
  });

  it("late events that an adopted log has are kept, with their new positions", async () => {
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitRows("public_event", "event_id = $1", [eventId], 1);
    for (const id of [eventId, randomUUID()])
      await setEventAside(world.pool, { eventId: id, position: -5n }, "deliveries", "Test");
    await inTransaction(world.pool, (client) => deleteLostState(client, Date.now()));
    const { rows } = await world.pool.query(
      `SELECT l.event_id AS "eventId" FROM webhooks.late_event l JOIN ${READ_MODEL_SCHEMA}.public_event USING (event_id, position)`,
    );
    expect(rows).to.deep.equal([{ eventId }]);
    expect(await countLateEvents()).to.equal(1);
  });

  it("late events of more than 30 days are not sent", async () => {
    world.start.webhooks();
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "delivered");
    await world.pool.query(
      `WITH old AS (UPDATE ${READ_MODEL_SCHEMA}.public_event SET occurred_at = now() - interval '31 days'
                     WHERE event_id = $1 RETURNING event_id, position),
            gone AS (DELETE FROM webhooks.delivery WHERE event_id = $1)
       INSERT INTO webhooks.late_event (event_id, position, needs_deliveries, needs_message)
       SELECT event_id, position, true, false FROM old`,
      [eventId],
    );
    await eventually("the late event", async () => (await countLateEvents()) === 0);
    expect(await world.readDelivery(eventId, endpoint)).to.equal(undefined);
  });
});
