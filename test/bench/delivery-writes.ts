/**
 * Measures what Postgres spends on one delivery that succeeds at the first attempt: `node --import tsx
 * test/bench/delivery-writes.ts [endpoints of each event]`. No request is sent. The benchmark calls the functions that
 * add, claim and finish deliveries, with batches of the size that occurs under load. Deliveries to endpoints that get
 * the events of each appointment in order are measured separately, with one and with five events for each appointment.
 *
 * It reports the CPU time of all Postgres processes, the bytes of WAL, the size of the tables, and the share of updates
 * that change no index (HOT).
 */
import { randomUUID } from "node:crypto";
import type pg from "pg";
import type { EventMessage } from "../../projection/relay/message.ts";
import { addDeliveries } from "../../projection/webhooks/match/match-event.ts";
import { writeOutcomes } from "../../projection/webhooks/record/outcomes.ts";
import { type ClaimedDelivery, claimDueDeliveries } from "../../projection/webhooks/send/claim.ts";
import type { DeliveryOrdering } from "../../shared/domain/events/partner.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { createWorld, type Endpoint, LEASE, registerSender, type World } from "../projection/webhooks/world.ts";
import { eventually } from "../support/eventually.ts";
import { mochaGlobalTeardown } from "../support/stack.ts";
import { measurePostgres } from "./measure-postgres.ts";
import { printRow } from "./report.ts";

const CLINIC_COUNT = 40;
const DELIVERY_COUNT = 20_000;
const WARM_UP_DELIVERY_COUNT = 4_000;
const EVENTS_PER_BATCH = 250;
const SLOTS_PER_ENDPOINT = 4;
const OUTCOMES_PER_BATCH = 100;
const endpointsPerEvent = Number(process.argv[2] ?? 1);

/** Registers the endpoints and fills the read models. @returns the endpoints of each clinic */
async function registerEndpoints(world: World, ordering: DeliveryOrdering): Promise<Endpoint[][]> {
  const projectors = world.start.projectors();
  const endpointsByClinic = await Promise.all(
    Array.from({ length: CLINIC_COUNT }, async () => {
      const firstEndpoint = await world.registerEndpoint("http://127.0.0.1/", { ordering });
      const options = { siblingEndpoint: firstEndpoint, ordering };
      const siblingPromises = Array.from({ length: endpointsPerEvent - 1 }, () =>
        world.registerEndpoint("http://127.0.0.1/", options),
      );
      return [firstEndpoint, ...(await Promise.all(siblingPromises))];
    }),
  );
  await eventually("the endpoints", async () => {
    const { rowCount } = await world.pool.query(
      `SELECT FROM ${READ_MODEL_SCHEMA}.webhook_endpoint WHERE ordering = $1`,
      [ordering],
    );
    return rowCount === CLINIC_COUNT * endpointsPerEvent;
  });
  await world.stopRoles(projectors);
  // The read models include all events of the benchmark.
  await world.pool.query(`UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET position = 2000000`);
  return endpointsByClinic;
}

/** Creates the messages of a new appointment's events. */
function createMessages({ clinicId }: Endpoint, eventCount: number): EventMessage[] {
  const [appointmentId, branchId] = [randomUUID(), randomUUID()];
  const filler = "x".repeat(400);
  const events = Array.from({ length: eventCount }, (_, n) => ({ id: randomUUID(), position: BigInt(1_000_000 + n) }));
  return events.map(({ id, position }, n) => {
    const body = {
      id,
      type: n === 0 ? "appointment.created" : "appointment.updated",
      apiVersion: "v1",
      createdAt: new Date().toISOString(),
      environment: "production",
      clinicId,
      branchId,
      data: { appointment: { id: appointmentId, filler } },
    };
    const source = { position, stream: `appointment-${appointmentId}`, revision: BigInt(n) };
    return {
      kind: "event",
      ...source,
      correlationId: randomUUID(),
      onlyEndpointId: null,
      previousEvent: events[n - 1] ?? null,
      body,
    } as unknown as EventMessage;
  });
}

/** Claims due deliveries of all endpoints and records a success for each. @returns the number of deliveries */
async function deliverDueDeliveries(pool: pg.Pool, endpoints: readonly Endpoint[]): Promise<number> {
  const grants = endpoints.map(({ endpointId, applicationId }) => ({
    ...({
      lane: "first",
      environment: "production",
      slotCount: SLOTS_PER_ENDPOINT,
      occupiedSlots: 0,
    } as const),
    endpointId,
    applicationId,
  }));
  const { deliveries } = await claimDueDeliveries(pool, grants, [], LEASE, Date.now());
  for (let start = 0; start < deliveries.length; start += OUTCOMES_PER_BATCH) {
    const outcomes = deliveries.slice(start, start + OUTCOMES_PER_BATCH).map(toSuccessOutcome);
    await writeOutcomes(pool, outcomes, Date.now());
  }
  return deliveries.length;
}

function toSuccessOutcome(delivery: ClaimedDelivery) {
  const result = { statusCode: 200, error: null, retryAfter: null, responseBody: "ok", durationMs: 3 };
  return { delivery, result, verdict: { status: "delivered" } as const };
}

async function deliverMessages(
  pool: pg.Pool,
  endpointsByClinic: readonly Endpoint[][],
  { deliveryCount, eventsPerAppointment }: { deliveryCount: number; eventsPerAppointment: number },
): Promise<void> {
  let deliveredCount = 0;
  while (deliveredCount < deliveryCount) {
    const count = Math.ceil(EVENTS_PER_BATCH / endpointsPerEvent / eventsPerAppointment);
    const messages = Array.from({ length: count }, (_, n) =>
      createMessages(endpointsByClinic[n % CLINIC_COUNT]![0]!, eventsPerAppointment),
    ).flat();
    await addDeliveries({ ...world, pool }, messages, Date.now());
    for (let hasMore = true; hasMore; ) {
      const finishedCount = await deliverDueDeliveries(pool, endpointsByClinic.flat());
      deliveredCount += finishedCount;
      hasMore = finishedCount > 0;
    }
  }
}

const world = await createWorld();
await registerSender(world.pool);
// The service's connections have the same setting, which decides the plans.
const pool = createPool({
  url: world.databaseUrl,
  applicationName: "bench",
  size: 1,
  statementTimeoutMs: 20_000,
  shouldPreferIndexes: true,
  logger: createLogger("bench", "silent"),
});
try {
  const measure = async (
    endpointsByClinic: readonly Endpoint[][],
    { name, eventsPerAppointment }: { name: string; eventsPerAppointment: number },
  ) => {
    const deliver = (deliveryCount: number) =>
      deliverMessages(pool, endpointsByClinic, { deliveryCount, eventsPerAppointment });
    await deliver(WARM_UP_DELIVERY_COUNT);
    const { cpuMs, walBytes } = await measurePostgres(pool, () => deliver(DELIVERY_COUNT));
    printRow({
      name,
      cpuMicros: { postgres: (cpuMs * 1_000) / DELIVERY_COUNT },
      note: `WAL ${(walBytes / DELIVERY_COUNT).toFixed(0)} bytes`,
    });
  };
  const name = `delivery writes, ${endpointsPerEvent} endpoints for each event`;
  await measure(await registerEndpoints(world, "none"), { name, eventsPerAppointment: 1 });
  await pool.query("SELECT pg_stat_force_next_flush()");
  const { rows } = await pool.query<{ name: string; bytes: number; hot: number | null }>(
    `SELECT relname AS name, pg_total_relation_size(relid)::float8 AS bytes, n_tup_hot_upd::float8 / NULLIF(n_tup_upd, 0) AS hot
       FROM pg_stat_user_tables WHERE schemaname = 'webhooks' AND n_tup_ins > 0 ORDER BY relname`,
  );
  for (const { name, bytes, hot } of rows) {
    const sizeText = `${(bytes / (DELIVERY_COUNT + WARM_UP_DELIVERY_COUNT)).toFixed(0)} bytes per delivery`;
    const hotText = hot === null ? "" : `, ${(hot * 100).toFixed(0)} % of updates HOT`;
    printRow({ name: `table webhooks.${name}`, note: sizeText + hotText, isDetail: true });
  }
  const orderedEndpoints = await registerEndpoints(world, "appointment");
  for (const eventsPerAppointment of [1, 5]) {
    const orderedName = `in order, ${eventsPerAppointment} events for each appointment`;
    await measure(orderedEndpoints, { name: orderedName, eventsPerAppointment });
  }
} finally {
  await pool.end();
  await world.close();
  await mochaGlobalTeardown();
}
