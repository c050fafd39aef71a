import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { addDeliveries, MAX_BATCH_SIZE } from "../../../../projection/webhooks/match/add-deliveries.ts";
import { arrange, arrangeForgottenDeliveries } from "../../../../projection/webhooks/match/ordering.ts";
import {
  closeUnsendableDeliveries,
  skipUnapprovedDeliveries,
} from "../../../../projection/webhooks/record/close-deliveries.ts";
import { writeOutcomes } from "../../../../projection/webhooks/record/outcomes.ts";
import { type ClaimedDelivery, claimDueDeliveries } from "../../../../projection/webhooks/send/claim.ts";
import type { Verdict } from "../../../../projection/webhooks/send/retry-policy.ts";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import { useResource } from "../../../support/resources.ts";
import { createWorld, type Endpoint, LEASE, registerSender } from "../world.ts";

const DAY_MS = 24 * 60 * 60 * 1_000;
const branchId = randomUUID();
const uncoveredBranchId = randomUUID();

interface TestEvent {
  id: string;
  position: bigint;
  appointmentId: string;
  revision: number;
  isLate: boolean;
}

/** No role runs, because the tests call the steps of a delivery directly. */
describe("deliveries to an endpoint with the order `appointment`", () => {
  const world = useResource(createWorld);
  let endpoint: Endpoint;
  /** Position of the last created event. Starts after the end of the log. */
  let lastPosition = 10n ** 15n;
  /** Position of the dispatcher's checkpoint. */
  let position = lastPosition;

  before(async () => {
    await registerSender(world.pool);
    const projectors = world.start.projectors();
    endpoint = await world.registerEndpoint("http://127.0.0.1/", { branchIds: [branchId], ordering: "appointment" });
    await world.awaitRows("webhook_endpoint", "ordering = 'appointment'");
    await world.stopRoles(projectors);
    await world.pool.query("UPDATE webhooks.checkpoint SET position = $1", [position]);
  });
  beforeEach(() =>
    world.pool.query("TRUNCATE webhooks.delivery, webhooks.pending_delivery, webhooks.attempt, webhooks.late_event"),
  );

  /** Creates the first events of a new appointment. */
  function createEvents(count: number): TestEvent[] {
    const appointmentId = randomUUID();
    return Array.from({ length: count }, (_, revision) => {
      lastPosition += 1n;
      return { id: randomUUID(), position: lastPosition, appointmentId, revision, isLate: false };
    });
  }

  /** Inserts the public events of the given events. Late events are also recorded as such. */
  async function project(events: readonly TestEvent[], occurredAt = Date.now()): Promise<void> {
    const lateEvents = events.filter(({ isLate }) => isLate);
    await world.pool.query(
      `WITH late AS (
         INSERT INTO webhooks.late_event (event_id, position, needs_deliveries, needs_message)
         SELECT event_id, position, true, true FROM unnest($7::uuid[], $8::bigint[]) l (event_id, position)),
       moved AS (UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET position = GREATEST(position, (SELECT max(p) FROM unnest($2::bigint[]) p)))
       INSERT INTO ${READ_MODEL_SCHEMA}.public_event (event_id, position, appointment_id, type, data, occurred_at,
         clinic_id, branch_id, environment, correlation_id)
       SELECT e.id, e.position, e.appointment_id, CASE e.revision WHEN 0 THEN 'appointment.created' ELSE 'appointment.updated' END,
              json_build_object('appointment', json_build_object('revision', e.revision)), $9, $5, $6, 'production', e.id
         FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::integer[]) e (id, position, appointment_id, revision)`,
      [
        events.map(({ id }) => id),
        events.map((event) => event.position),
        events.map(({ appointmentId }) => appointmentId),
        events.map(({ revision }) => revision),
        ...[endpoint.clinicId, branchId],
        lateEvents.map(({ id }) => id),
        lateEvents.map((event) => event.position),
        new Date(occurredAt).toISOString(),
      ],
    );
  }
  /** Adds the deliveries of the events after the checkpoint, as the dispatcher does. */
  async function match(now = Date.now(), limit = MAX_BATCH_SIZE): Promise<void> {
    const added = await addDeliveries(world.pool, position, limit, now);
    expect(added.isLost).to.equal(false);
    position = added.position!;
    await arrange(world.pool, added.heldGroups, now);
    if (added.hasMore) await match(now, limit);
  }
  const add = async (events: readonly TestEvent[], now = Date.now()) => {
    await project(events);
    await match(now);
  };
  const moveToEnd = (event: TestEvent | undefined): TestEvent => {
    lastPosition += 1n;
    return { ...event!, position: lastPosition };
  };
  const toLate = (event: TestEvent | undefined) => ({ ...event!, isLate: true });

  async function claim(count = 10): Promise<ClaimedDelivery[]> {
    const { endpointId, applicationId } = endpoint;
    const grants = [{ environment: "production", applicationId, endpointId, count, inProgress: 0 } as const];
    return (await claimDueDeliveries(world.pool, grants, [], LEASE, Date.now())).deliveries;
  }
  const finish = (deliveries: readonly ClaimedDelivery[], verdict: Verdict = { status: "delivered" }) => {
    const isDelivered = verdict.status === "delivered";
    const result = {
      statusCode: isDelivered ? 200 : 500,
      error: null,
      retryAfter: null,
      responseBody: "",
      durationMs: 1,
    };
    return writeOutcomes(
      world.pool,
      deliveries.map((delivery) => ({ delivery, result, verdict })),
      { skipsLocked: false, now: Date.now() },
    );
  };
  const readRevision = ({ body }: ClaimedDelivery): number => JSON.parse(body!).data.appointment.revision;
  const listRevisions = (deliveries: readonly ClaimedDelivery[]) => deliveries.map(readRevision);
  /** Delivers until nothing is due. @returns the revisions in the order of their delivery */
  async function deliverAll(): Promise<number[]> {
    const deliveries = await claim();
    await finish(deliveries);
    return deliveries.length === 0 ? [] : [...listRevisions(deliveries), ...(await deliverAll())];
  }

  it("a claim takes only the earliest pending delivery of each appointment", async () => {
    const [events, otherEvents] = [createEvents(3), createEvents(2)];
    await add([...events, ...otherEvents]);
    const firstDeliveries = await claim();
    expect(listRevisions(firstDeliveries)).to.deep.equal([0, 0]);
    expect(await claim()).to.have.length(0);
    await finish(firstDeliveries.filter(({ orderingKey }) => orderingKey === events[0]!.appointmentId));
    expect(listRevisions(await claim())).to.deep.equal([1]);
  });

  it("a delivery in the retry schedule blocks the later events, and its final failure releases the next", async () => {
    await add(createEvents(2));
    const deliveries = await claim();
    const { releasedEndpoints } = await finish(deliveries, { status: "pending", nextAttemptAt: Date.now() + 60_000 });
    expect(releasedEndpoints).to.deep.equal([]);
    expect(await claim()).to.have.length(0);
    const { releasedEndpoints: endpointsAfterFailure } = await finish(deliveries, { status: "failed", isGone: false });
    const { endpointId, applicationId } = endpoint;
    const dueEndpoint = { environment: "production", applicationId, endpointId };
    expect(endpointsAfterFailure).to.deep.equal([dueEndpoint]);
    expect(listRevisions(await claim())).to.deep.equal([1]);
  });

  it("late events are delivered before a later event of their appointment that arrives at the same moment", async () => {
    const events = createEvents(5);
    await add([events[0]!]);
    await finish(await claim());
    await add(createEvents(1));
    await finish(await claim());
    await project([...events.slice(1, 4).map(toLate), moveToEnd(events[4])]);
    // The message of a late event may be published before, or after.
    await world.pool.query("UPDATE webhooks.late_event SET needs_message = false WHERE event_id = $1", [events[1]!.id]);
    await match();
    const { rows } = await world.pool.query(
      "SELECT event_id AS id FROM webhooks.late_event WHERE needs_message AND NOT needs_deliveries ORDER BY position",
    );
    expect(rows.map(({ id }) => id)).to.deep.equal([events[2]!.id, events[3]!.id]);
    expect(await deliverAll()).to.deep.equal([1, 2, 3, 4]);
  });

  it("a late event is delivered before a later event that waits for a retry or is blocked", async () => {
    const events = createEvents(4);
    await add([events[0]!, events[2]!, events[3]!]);
    await finish(await claim());
    await finish(await claim(), { status: "pending", nextAttemptAt: Date.now() });
    await add([toLate(events[1])]);
    const lateDeliveries = await claim();
    expect(listRevisions(lateDeliveries)).to.deep.equal([1]);
    await finish(lateDeliveries);
    const retriedDeliveries = await claim();
    expect(listRevisions(retriedDeliveries)).to.deep.equal([2]);
    await finish(retriedDeliveries);
    expect(await deliverAll()).to.deep.equal([3]);
  });

  /** Creates three events of an appointment. The checkpoint has passed the first two, which have no deliveries yet. */
  const createLateEvents = async (): Promise<TestEvent[]> => {
    const [first, second, third] = createEvents(3);
    await add(createEvents(1));
    await finish(await claim());
    return [toLate(first), toLate(second), moveToEnd(third)];
  };

  it("late events that the checkpoint has not passed are delivered once, in order", async () => {
    const [first, second, third] = createEvents(3);
    await add([toLate(first), toLate(second), third!]);
    expect(await deliverAll()).to.deep.equal([0, 1, 2]);
    await add(createEvents(1));
    expect(await deliverAll()).to.deep.equal([0]);
  });

  it("more late events than fit into a batch are delivered before a later event", async () => {
    await project(await createLateEvents());
    await match(Date.now(), 1);
    expect(await deliverAll()).to.deep.equal([0, 1, 2]);
  });

  it("a late event whose record somebody has locked is delivered before a later event, and only once", async () => {
    const events = await createLateEvents();
    await project(events);
    const client = await world.pool.connect();
    await client.query("BEGIN");
    await client.query("SELECT FROM webhooks.late_event WHERE event_id = $1 FOR UPDATE", [events[0]!.id]);
    await match();
    expect(await deliverAll()).to.deep.equal([0, 1, 2]);
    await client.query("COMMIT");
    client.release();
    await match();
    expect(await deliverAll()).to.deep.equal([]);
    const { rowCount } = await world.pool.query("SELECT FROM webhooks.late_event WHERE needs_deliveries");
    expect(rowCount).to.equal(0);
  });

  it("a late event that is older than 30 days is not delivered", async () => {
    const [event] = createEvents(1);
    await add(createEvents(1));
    await finish(await claim());
    await project([toLate(event)], Date.now() - 31 * DAY_MS);
    await match();
    expect(await claim()).to.deep.equal([]);
    const { rows } = await world.pool.query("SELECT needs_deliveries, needs_message FROM webhooks.late_event");
    expect(rows).to.deep.equal([{ needs_deliveries: false, needs_message: true }]);
  });

  it("an event that is added again after its delivery has ended is not delivered again and blocks no other event", async () => {
    const [firstEvent, secondEvent] = createEvents(2);
    await add([firstEvent!]);
    await finish(await claim());
    await world.pool.query("INSERT INTO webhooks.late_event VALUES ($1, $2, true, true)", [
      ...[firstEvent!.id, firstEvent!.position],
    ]);
    await add([secondEvent!]);
    expect(await deliverAll()).to.deep.equal([1]);
  });

  it("a process that expects the checkpoint elsewhere adds nothing", async () => {
    await project(createEvents(1));
    const added = await addDeliveries(world.pool, position - 1n, MAX_BATCH_SIZE, Date.now());
    expect(added).to.deep.include({ isLost: true, position, hasMore: false, dueEndpoints: [], heldGroups: [] });
    expect((await world.pool.query("SELECT FROM webhooks.delivery")).rowCount).to.equal(0);
    await match();
    expect(await deliverAll()).to.deep.equal([0]);
  });

  it("a batch moves the checkpoint to its last event", async () => {
    const events = createEvents(3);
    await project(events);
    const added = await addDeliveries(world.pool, position, 2, Date.now());
    expect(added).to.deep.include({ hasMore: true, position: events[1]!.position });
    position = added.position!;
    const { rows } = await world.pool.query("SELECT event_id AS id FROM webhooks.delivery ORDER BY event_position");
    expect(rows.map(({ id }) => id)).to.deep.equal([events[0]!.id, events[1]!.id]);
    await match();
  });

  it("if a delivery is closed because of its branch, the next is released, also if the closed one was not released", async () => {
    const events = createEvents(4);
    await add([...events, ...createEvents(1)]);
    const moveToBranch = (revision: number) =>
      world.pool.query("UPDATE webhooks.pending_delivery SET branch_id = $1 WHERE event_id = $2", [
        uncoveredBranchId,
        events[revision]!.id,
      ]);
    await moveToBranch(1);
    const close = async () => (await closeUnsendableDeliveries(world.pool, Date.now())).closedCounts.cancelled;
    expect(await close()).to.equal(1);
    const deliveries = await claim();
    expect(listRevisions(deliveries)).to.deep.equal([0, 0]);
    await finish(deliveries);
    await moveToBranch(2);
    expect(await close()).to.equal(1);
    expect(listRevisions(await claim())).to.deep.equal([3]);
  });

  it("blocked deliveries are released if the delivery before them was deleted by other means", async () => {
    await add(Array.from({ length: 1_001 }, () => createEvents(3)).flat());
    await world.pool.query("DELETE FROM webhooks.pending_delivery WHERE NOT is_blocked");
    expect(await claim()).to.have.length(0);
    const countReleased = async () => {
      await arrangeForgottenDeliveries(world.pool, Date.now());
      return (await world.pool.query("SELECT FROM webhooks.pending_delivery WHERE NOT is_blocked")).rowCount;
    };
    expect([await countReleased(), await countReleased(), await countReleased()]).to.deep.equal([1_000, 1_001, 1_001]);
    expect(new Set(listRevisions(await claim()))).to.deep.equal(new Set([1]));
  });

  it("a repair blocks a delivery that was released before an earlier one was added", async () => {
    const [first, second] = createEvents(2);
    await add([second!]);
    await project([toLate(first)]);
    position = (await addDeliveries(world.pool, position, MAX_BATCH_SIZE, Date.now())).position!;
    await arrangeForgottenDeliveries(world.pool, Date.now());
    expect(await deliverAll()).to.deep.equal([0, 1]);
  });

  it("a delivery stays pending while its installation or the consent of its animal is quarantined", async () => {
    const animalId = randomUUID();
    await add(createEvents(1));
    await world.pool.query("UPDATE webhooks.pending_delivery SET branch_id = $1, animal_id = $2", [branchId, animalId]);
    const close = async () => (await closeUnsendableDeliveries(world.pool, Date.now())).closedCounts.cancelled;
    const installation = `${READ_MODEL_SCHEMA}.installation`;
    const { rows } = await world.pool.query(`DELETE FROM ${installation} RETURNING to_json(installation) AS json`);
    expect(await close()).to.equal(0);
    const restored = rows.map(({ json }) => json);
    await world.pool.query(
      `INSERT INTO ${installation} SELECT * FROM json_populate_recordset(NULL::${installation}, $1)`,
      [JSON.stringify(restored)],
    );
    await world.pool.query(`UPDATE ${installation} SET animal_access = 'linked'`);
    await world.pool.query(
      `INSERT INTO ${READ_MODEL_SCHEMA}.quarantined_stream VALUES ($1, 0, 0, 'AnimalLinked', 'Test', NULL, now(), 1)`,
      [`animalConsent-${animalId}`],
    );
    expect(await close()).to.equal(0);
    await world.pool.query(`DELETE FROM ${READ_MODEL_SCHEMA}.quarantined_stream`);
    expect(await close()).to.equal(1);
    await world.pool.query(`UPDATE ${installation} SET animal_access = 'all'`);
  });

  it("a delivery that was released instead of a skipped one waits no longer for the approval than others", async () => {
    const now = Date.now();
    const [firstEvent, secondEvent] = createEvents(2);
    await add([firstEvent!], now);
    await add([secondEvent!], now + DAY_MS);
    const setOrigins = (origins: string) =>
      world.pool.query(`UPDATE ${READ_MODEL_SCHEMA}.partner_application SET webhook_origins = $1`, [origins]);
    const { rows } = await world.pool.query(`SELECT webhook_origins FROM ${READ_MODEL_SCHEMA}.partner_application`);
    await setOrigins("[]");
    const skip = async (time: number) => (await skipUnapprovedDeliveries(world.pool, time)).closedCounts.skipped;
    expect(await skip(now + 30.5 * DAY_MS)).to.equal(1);
    expect(await skip(now + 30.6 * DAY_MS)).to.equal(0);
    expect(await skip(now + 31.5 * DAY_MS)).to.equal(1);
    await setOrigins(JSON.stringify(rows[0].webhook_origins));
  });

  it("concurrent additions, outcomes and repairs neither change the order nor leave a blocked delivery behind", async () => {
    const appointments = Array.from({ length: 15 }, () => createEvents(6));
    const deliveredRevisions = new Map<string | null, number[]>();
    let deliveredCount = 0;
    const addInOrder = async () => {
      for (let revision = 0; revision < 6; revision += 1) {
        for (const events of appointments) {
          // The events of all appointments alternate in the log.
          await add([moveToEnd(events[revision])]);
        }
      }
    };
    const hasMore = () => deliveredCount < 15 * 6;
    const deliver = async () => {
      while (hasMore()) {
        const deliveries = await claim(3);
        for (const delivery of deliveries) {
          const revisions = deliveredRevisions.get(delivery.orderingKey) ?? [];
          deliveredRevisions.set(delivery.orderingKey, [...revisions, readRevision(delivery)]);
        }
        await finish(deliveries);
        deliveredCount += deliveries.length;
      }
    };
    const repair = async () => {
      while (hasMore()) await arrangeForgottenDeliveries(world.pool, Date.now());
    };
    await Promise.all([addInOrder(), deliver(), deliver(), repair()]);
    expect([...deliveredRevisions.values()]).to.deep.equal(Array(15).fill([0, 1, 2, 3, 4, 5]));
  });
});
