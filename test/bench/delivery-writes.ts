/**
 * Measures what Postgres spends on one delivery that succeeds at the first attempt: `node --import tsx
 * test/bench/delivery-writes.ts [endpoints of each event]`. Reports the CPU time of all Postgres processes, the bytes
 * of WAL, the size of the tables, and the share of updates that change no index (HOT).
 *
 * No webhook is sent. The benchmark calls the functions that add, claim and finish deliveries, in batches as large as
 * under load. It measures endpoints without order, and endpoints that get the events of each appointment in order. For
 * ordered endpoints, it compares one and five events for each appointment.
 */
import type pg from "pg";
import { readWebhookCheckpoint } from "../../projection/checkpoints/webhook-checkpoints.ts";
import { addDeliveries } from "../../projection/webhooks/match/add-deliveries.ts";
import { arrange } from "../../projection/webhooks/match/ordering.ts";
import { writeOutcomes } from "../../projection/webhooks/record/outcomes.ts";
import { type ClaimedDelivery, claimDueDeliveries } from "../../projection/webhooks/send/claim.ts";
import type { DeliveryOrdering } from "../../shared/domain/events/partner.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createWorld, type Endpoint, LEASE, registerSender, type World } from "../projection/webhooks/world.ts";
import { createTestPool } from "../support/connections.ts";
import { eventually } from "../support/eventually.ts";
import { mochaGlobalTeardown } from "../support/stack.ts";
import { measurePostgres } from "./measure-postgres.ts";
import { printRow } from "./report.ts";

const CLINIC_COUNT = 40;
const DELIVERY_COUNT = 20_000;
const WARM_UP_DELIVERY_COUNT = 4_000;
const EVENTS_PER_BATCH = 250;
const ATTEMPTS_PER_ENDPOINT = 4;
const OUTCOMES_PER_BATCH = 100;
/** Log position of the first inserted event. Higher than all real positions. */
const FIRST_POSITION = 1_000_000_000;
const endpointsPerEvent = Number(process.argv[2] ?? 1);

/** Registers the endpoints and waits until the read model contains them. @returns the endpoints of each clinic */
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
  return endpointsByClinic;
}

let lastPosition = FIRST_POSITION;

/**
 * Inserts public events of a new appointment for each given clinic, and moves the read models' checkpoint past them.
 */
async function insertEvents(pool: pg.Pool, clinicIds: string[], eventsPerAppointment: number): Promise<void> {
  const firstPosition = lastPosition;
  lastPosition += clinicIds.length * eventsPerAppointment;
  await pool.query(
    `INSERT INTO ${READ_MODEL_SCHEMA}.public_event (event_id, position, occurred_at, type, clinic_id, branch_id,
       appointment_id, data, environment, correlation_id)
     SELECT gen_random_uuid(), $2 + row_number() OVER (), now(), 'appointment.created', clinic_id, clinic_id,
            appointment_id, json_build_object('appointment', json_build_object('filler', repeat('x', 400))),
            'production', gen_random_uuid()
       FROM (SELECT clinic_id, gen_random_uuid() AS appointment_id FROM unnest($1::uuid[]) AS c (clinic_id)) a,
            generate_series(1, $3::integer)`,
    [clinicIds, firstPosition, eventsPerAppointment],
  );
  await pool.query(`UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET position = $1`, [lastPosition]);
}

/** Claims due deliveries of all endpoints and records a success for each. @returns the number of deliveries */
async function deliverDueDeliveries(pool: pg.Pool, endpoints: readonly Endpoint[]): Promise<number> {
  const grants = endpoints.map(({ endpointId, applicationId }) => ({
    ...({ environment: "production", count: ATTEMPTS_PER_ENDPOINT, inProgress: 0 } as const),
    endpointId,
    applicationId,
  }));
  const { deliveries } = await claimDueDeliveries(pool, grants, [], LEASE, Date.now());
  for (let start = 0; start < deliveries.length; start += OUTCOMES_PER_BATCH) {
    const outcomes = deliveries.slice(start, start + OUTCOMES_PER_BATCH).map(toSuccessOutcome);
    await writeOutcomes(pool, outcomes, { skipsLocked: false, now: Date.now() });
  }
  return deliveries.length;
}

function toSuccessOutcome(delivery: ClaimedDelivery) {
  const result = { statusCode: 200, error: null, retryAfter: null, responseBody: "ok", durationMs: 3 };
  return { delivery, result, verdict: { status: "delivered" } as const };
}

async function deliverEvents(
  pool: pg.Pool,
  endpointsByClinic: readonly Endpoint[][],
  { deliveryCount, eventsPerAppointment }: { deliveryCount: number; eventsPerAppointment: number },
): Promise<void> {
  let deliveredCount = 0;
  while (deliveredCount < deliveryCount) {
    const count = Math.ceil(EVENTS_PER_BATCH / endpointsPerEvent / eventsPerAppointment);
    const clinicIds = Array.from({ length: count }, (_, n) => endpointsByClinic[n % CLINIC_COUNT]![0]!.clinicId);
    const { position } = await readWebhookCheckpoint(pool, "deliveries");
    await insertEvents(pool, clinicIds, eventsPerAppointment);
    const { heldGroups } = await addDeliveries(pool, position, EVENTS_PER_BATCH, Date.now());
    await arrange(pool, heldGroups, Date.now());
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
const pool = createTestPool(world.databaseUrl, { size: 1, shouldPreferIndexes: true });
try {
  const measure = async (
    endpointsByClinic: readonly Endpoint[][],
    { name, eventsPerAppointment }: { name: string; eventsPerAppointment: number },
  ) => {
    const deliver = (deliveryCount: number) =>
      deliverEvents(pool, endpointsByClinic, { deliveryCount, eventsPerAppointment });
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
  await world.close();
  await mochaGlobalTeardown();
}
