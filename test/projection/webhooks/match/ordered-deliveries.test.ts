import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { EventMessage } from "../../../../projection/relay/message.ts";
import { addDeliveries } from "../../../../projection/webhooks/match/match-event.ts";
import { lockOrder, releaseForgottenDeliveries } from "../../../../projection/webhooks/match/ordering.ts";
import {
  closeUnsendableDeliveries,
  skipUnapprovedDeliveries,
} from "../../../../projection/webhooks/record/close-deliveries.ts";
import { writeOutcomes } from "../../../../projection/webhooks/record/outcomes.ts";
import { type ClaimedDelivery, claimDueDeliveries } from "../../../../projection/webhooks/send/claim.ts";
import type { Verdict } from "../../../../projection/webhooks/send/retry-policy.ts";
import { LogUnavailableError } from "../../../../shared/eventstore/log.ts";
import { readLogEnd } from "../../../../shared/eventstore/read-log.ts";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../../support/eventually.ts";
import { createWorld, type Endpoint, LEASE, registerSender, type World } from "../world.ts";

/** Position behind the end of the log. */
const BASE_POSITION = 10n ** 15n;

const DAY_MS = 24 * 60 * 60 * 1_000;
const branchId = randomUUID();
const uncoveredBranchId = randomUUID();

/** The tests call the steps of delivering directly, so no role runs. */
describe("deliveries to an endpoint with the order `appointment`", () => {
  let world: World;
  let endpoint: Endpoint;

  before(async () => {
    world = await createWorld();
    await registerSender(world.pool);
    const projectors = world.start.projectors();
    endpoint = await world.registerEndpoint("http://127.0.0.1/", { branchIds: [branchId], ordering: "appointment" });
    await world.awaitRows("webhook_endpoint", "ordering = 'appointment'");
    await world.stopRoles(projectors);
    // The read models include all events of the tests.
    await world.pool.query(`UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET position = ${2n * BASE_POSITION}`);
  });
  after(() => world.close());
  beforeEach(() => world.pool.query("TRUNCATE webhooks.delivery, webhooks.pending_delivery, webhooks.attempt"));

  /** Creates the messages of the first events of a new appointment. */
  function createEvents(count: number, branchIds: string[] = []): EventMessage[] {
    const appointmentId = randomUUID();
    const ids = Array.from({ length: count }, () => randomUUID());
    return ids.map((id, index) => {
      const getPosition = (revision: number) => BASE_POSITION + BigInt(revision);
      const previousEvent = index === 0 ? null : { id: ids[index - 1], position: getPosition(index - 1) };
      const type = index === 0 ? "appointment.created" : "appointment.updated";
      return {
        kind: "event",
        position: getPosition(index),
        stream: `appointment-${appointmentId}`,
        revision: BigInt(index),
        correlationId: randomUUID(),
        onlyEndpointId: null,
        previousEvent,
        body: {
          id,
          type,
          environment: "production",
          clinicId: endpoint.clinicId,
          branchId: branchIds[index] ?? branchId,
          data: { appointment: { id: appointmentId, revision: index } },
        },
      } as unknown as EventMessage;
    });
  }
  const add = (events: readonly EventMessage[], now = Date.now()) => addDeliveries(world, events, now);

  /** Claims due first attempts. */
  async function claim(slotCount = 10, now = Date.now()): Promise<ClaimedDelivery[]> {
    const { endpointId, applicationId } = endpoint;
    const dueEndpoint = { lane: "first", environment: "production", applicationId, endpointId } as const;
    const grants = [{ ...dueEndpoint, slotCount, occupiedSlots: 0 }];
    return (await claimDueDeliveries(world.pool, grants, [], LEASE, now)).deliveries;
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
      Date.now(),
    );
  };
  const listRevisions = (deliveries: readonly ClaimedDelivery[]) =>
    deliveries.map(({ eventRevision }) => Number(eventRevision));

  it("a claim takes only the earliest pending delivery of each appointment", async () => {
    const [events, otherEvents] = [createEvents(3), createEvents(2)];
    // Messages can be in any order.
    await add([...events.toReversed(), ...otherEvents]);
    const firstDeliveries = await claim();
    expect(listRevisions(firstDeliveries)).to.deep.equal([0, 0]);
    expect(await claim()).to.have.length(0);
    await finish(firstDeliveries.filter(({ orderingKey }) => orderingKey === events[0]!.stream.slice(12)));
    expect(listRevisions(await claim())).to.deep.equal([1]);
  });

  it("a delivery in the retry schedule holds the later events, and its final failure releases the next", async () => {
    await add(createEvents(2));
    const deliveries = await claim();
    const { releasedEndpoints } = await finish(deliveries, { status: "pending", nextAttemptAt: Date.now() + 1 });
    expect(releasedEndpoints).to.deep.equal([]);
    expect(await claim()).to.have.length(0);
    const { releasedEndpoints: endpointsAfterFailure } = await finish(deliveries, { status: "failed", isGone: false });
    const { endpointId, applicationId } = endpoint;
    const dueEndpoint = { lane: "first", environment: "production", applicationId, endpointId };
    expect(endpointsAfterFailure).to.deep.equal([dueEndpoint]);
    expect(listRevisions(await claim())).to.deep.equal([1]);
  });

  it("an event is not ready if an earlier event of the appointment is neither matched nor in the log", async () => {
    const events = createEvents(4);
    const [firstEvent, secondEvent, thirdEvent, fourthEvent] = events as [EventMessage, ...EventMessage[]];
    const { unreadyEvents, dueEndpoints } = await add([secondEvent!, thirdEvent!]);
    expect([...unreadyEvents]).to.deep.equal([secondEvent, thirdEvent]);
    expect(dueEndpoints).to.deep.equal([]);
    expect(await claim()).to.have.length(0);
    for (const batch of [[firstEvent], [secondEvent!, thirdEvent!], [fourthEvent!], [secondEvent!]]) {
      expect((await add(batch)).unreadyEvents.size).to.equal(0);
    }
    for (const revision of [0, 1, 2, 3]) {
      const deliveries = await claim();
      expect(listRevisions(deliveries)).to.deep.equal([revision]);
      await finish(deliveries);
    }
  });

  for (const kind of ["tombstoned", "missing"]) {
    it(`an event of a ${kind} stream does not wait for earlier events`, async () => {
      await world.requestAppointment(endpoint.clinicId);
      const logEnd = await readLogEnd(world.client);
      const getPosition = (revision: bigint) => logEnd - 2n + revision;
      const [, secondEvent, thirdEvent] = createEvents(3).map((event) => ({
        ...event,
        position: getPosition(event.revision),
        previousEvent: event.previousEvent && { ...event.previousEvent, position: getPosition(event.revision - 1n) },
      })) as [EventMessage, EventMessage, EventMessage];
      if (kind === "tombstoned") await world.client.tombstoneStream(secondEvent.stream);
      const unavailableLog = { ...world.log, read: () => Promise.reject(new LogUnavailableError("gone")) };
      const batch = [secondEvent, thirdEvent];
      expect((await addDeliveries({ ...world, log: unavailableLog }, batch, Date.now())).unreadyEvents.size).to.equal(
        2,
      );
      expect((await add(batch)).unreadyEvents.size).to.equal(0);
      const deliveries = await claim();
      expect(listRevisions(deliveries)).to.deep.equal([1]);
      await finish(deliveries);
      expect(listRevisions(await claim())).to.deep.equal([2]);
    });
  }

  it("an event waits for an earlier event if the log was behind when its stream was read", async () => {
    const logEnd = await readLogEnd(world.client);
    const [firstEvent, secondEvent] = createEvents(2).map((event) => ({ ...event, position: logEnd + 1n })) as [
      EventMessage,
      EventMessage,
    ];
    const staleLog = {
      ...world.log,
      async read() {
        await world.requestAppointment(endpoint.clinicId);
        return [];
      },
    };
    const event = { ...secondEvent, previousEvent: { id: firstEvent.body.id, position: logEnd } };
    const { unreadyEvents } = await addDeliveries({ ...world, log: staleLog }, [event], Date.now());
    expect([...unreadyEvents]).to.deep.equal([event]);
  });

  it("an event that is added again after its delivery has ended is not delivered again and holds no other event", async () => {
    const events = createEvents(2);
    await add(events.slice(0, 1));
    await finish(await claim());
    await add(events);
    expect(listRevisions(await claim())).to.deep.equal([1]);
  });

  it("if a delivery is closed because of its branch, the next is released, also if the closed one was not released", async () => {
    await add(createEvents(4, [branchId, branchId, branchId, branchId]));
    await add(createEvents(1));
    const moveToBranch = (revision: number) =>
      world.pool.query("UPDATE webhooks.pending_delivery SET branch_id = $1 WHERE event_revision = $2 AND is_held", [
        uncoveredBranchId,
        revision,
      ]);
    await moveToBranch(1);
    const close = async () => (await closeUnsendableDeliveries(world.pool, Date.now())).closedCounts.cancelled;
    expect(await close()).to.equal(1);
    const deliveries = await claim();
    expect(listRevisions(deliveries)).to.deep.equal([0, 0]);
    await finish(deliveries);
    await world.pool.query("UPDATE webhooks.pending_delivery SET branch_id = $1 WHERE event_revision = 2", [
      uncoveredBranchId,
    ]);
    expect(await close()).to.equal(1);
    expect(listRevisions(await claim())).to.deep.equal([3]);
  });

  it("an event that the read models do not include yet gets no delivery", async () => {
    const [event] = createEvents(1) as [EventMessage];
    const earlyEvent = { ...event, position: 3n * BASE_POSITION };
    expect((await add([earlyEvent])).unreadyEvents).to.deep.equal(new Set([earlyEvent]));
    expect(await claim()).to.deep.equal([]);
  });

  it("a held delivery is released if the delivery before it was deleted by other means", async () => {
    await add(createEvents(3));
    await world.pool.query("DELETE FROM webhooks.pending_delivery WHERE NOT is_held");
    expect(await claim()).to.have.length(0);
    await releaseForgottenDeliveries(world.pool, Date.now());
    expect(listRevisions(await claim())).to.deep.equal([1]);
    await releaseForgottenDeliveries(world.pool, Date.now());
    expect(await claim()).to.have.length(0);
  });

  it("the repair reports that more held deliveries may need to be released", async () => {
    await add(Array.from({ length: 1_001 }, () => createEvents(2)).flat());
    await world.pool.query("DELETE FROM webhooks.pending_delivery WHERE NOT is_held");
    expect(await releaseForgottenDeliveries(world.pool, Date.now())).to.equal(true);
    expect(await releaseForgottenDeliveries(world.pool, Date.now())).to.equal(false);
    const { rowCount } = await world.pool.query("SELECT FROM webhooks.pending_delivery WHERE is_held");
    expect(rowCount).to.equal(0);
  });

  it("a delivery that was released instead of a skipped one waits no longer for the approval than others", async () => {
    const now = Date.now();
    const events = createEvents(2);
    await add(events.slice(0, 1), now);
    await add(events.slice(1), now + DAY_MS);
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

  it("an outcome that leads to a retry waits for the lock of the order, so that replays cause no deadlock", async () => {
    await add(createEvents(1));
    const deliveries = await claim();
    const locker = await world.pool.connect();
    await locker.query("BEGIN");
    await lockOrder(locker, [endpoint]);
    const outcomePromise = finish(deliveries, { status: "pending", nextAttemptAt: Date.now() });
    const waitingSql = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`;
    try {
      await eventually("the wait for the lock", async () => (await world.pool.query(waitingSql)).rowCount === 1);
    } finally {
      await locker.query("COMMIT");
      locker.release();
    }
    await outcomePromise;
    const { rowCount } = await world.pool.query("SELECT FROM webhooks.pending_delivery WHERE round_attempt_count = 1");
    expect(rowCount).to.equal(1);
  });

  it("concurrent additions and outcomes neither change the order nor leave a held delivery behind", async () => {
    const appointments = Array.from({ length: 15 }, () => createEvents(6));
    const deliveredRevisions = new Map<string | null, number[]>();
    let deliveredCount = 0;
    const addInOrder = async (events: readonly EventMessage[]) => {
      for (const event of events) await add([event]);
    };
    const deliver = async () => {
      while (deliveredCount < 15 * 6) {
        const deliveries = await claim(3);
        for (const { orderingKey, eventRevision } of deliveries) {
          const revisions = deliveredRevisions.get(orderingKey) ?? [];
          deliveredRevisions.set(orderingKey, [...revisions, Number(eventRevision)]);
        }
        await finish(deliveries);
        deliveredCount += deliveries.length;
      }
    };
    await Promise.all([...appointments.map(addInOrder), deliver(), deliver()]);
    expect([...deliveredRevisions.values()]).to.deep.equal(Array(15).fill([0, 1, 2, 3, 4, 5]));
  });
});
