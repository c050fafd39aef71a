import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type pg from "pg";
import type { Role } from "../../../projection/roles/role.ts";
import { addDeliveries, MAX_BATCH_SIZE } from "../../../projection/webhooks/match/add-deliveries.ts";
import { arrange } from "../../../projection/webhooks/match/ordering.ts";
import { closeUnsendableDeliveries } from "../../../projection/webhooks/record/close-deliveries.ts";
import { writeOutcomes } from "../../../projection/webhooks/record/outcomes.ts";
import { findDueEndpoints } from "../../../projection/webhooks/schedule/due.ts";
import { type ClaimedDelivery, claimDueDeliveries } from "../../../projection/webhooks/send/claim.ts";
import type { Verdict } from "../../../projection/webhooks/send/retry-policy.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { useResource } from "../../support/resources.ts";
import { createWorld, type Endpoint, LEASE, registerSender } from "./world.ts";

/** Number of executions after which Postgres no longer changes the plan of a prepared statement. */
const EXECUTIONS_BEFORE_KEPT_PLAN = 6;

describe("the plans of the statements about pending deliveries", () => {
  const world = useResource(createWorld);
  let pool: pg.Pool;
  let endpoint: Endpoint;
  let projectors: Role;

  before(async () => {
    await registerSender(world.pool);
    projectors = world.start.projectors();
    endpoint = await world.registerEndpoint("http://127.0.0.1/");
    await world.awaitRows("webhook_endpoint", "endpoint_id = $1", [endpoint.endpointId]);
    // The service's connections have the same setting. A single connection keeps its plans for the whole test.
    const logger = createLogger("test", "silent");
    const options = { url: world.databaseUrl, applicationName: "test", size: 1, statementTimeoutMs: 20_000, logger };
    pool = createPool({ ...options, shouldPreferIndexes: true });
  });
  after(async () => {
    await pool.end();
  });

  it("no index of the delivery table depends on a column that changes when a delivery succeeds", async () => {
    const { rows } = await world.pool.query<{ column: string }>(
      `SELECT DISTINCT a.attname AS column
         FROM pg_index i
         JOIN pg_depend p ON p.objid = i.indexrelid AND p.refobjid = i.indrelid AND p.refobjsubid > 0
         JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = p.refobjsubid
        WHERE i.indrelid = 'webhooks.delivery'::regclass`,
    );
    const indexedColumns = rows.map(({ column }) => column);
    expect(indexedColumns).to.include("unsuccessful_status");
    expect(indexedColumns).not.to.include.any.members(["status", "attempt_count", "next_attempt_at", "updated_at"]);
  });

  /**
   * Inserts pending deliveries, distributed evenly over the endpoint and 19 other endpoints.
   *
   * @param areOrdered if true, each appointment has ten deliveries. The first waits for a retry and blocks the others
   */
  const insertDeliveries = (count: number, areOrdered = false) =>
    world.pool.query(
      `WITH added AS (
         INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, application_id, environment, event_id,
           event_type, event_position, status, cause_id, correlation_id, next_attempt_at, created_at, updated_at)
         SELECT gen_random_uuid(), CASE n % 20 WHEN 0 THEN $1::uuid ELSE md5((n % 20)::text)::uuid END, $2, $3,
                'production', $2, 'appointment.created', n, 'pending', $2, $2, now(), now(), now()
           FROM generate_series(1, $4::integer) n
         RETURNING *)
       INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, event_id, event_position, next_attempt_at,
         failed_attempt_count, attempt_count, ordering_key, is_blocked)
       SELECT delivery_id, endpoint_id, event_id, event_position, CASE WHEN is_first THEN now() + interval '1 hour' ELSE next_attempt_at END,
              CASE WHEN is_first THEN 1 ELSE 0 END, 0, CASE WHEN $5 THEN md5((event_position / 200)::text)::uuid END,
              $5 AND NOT is_first
         FROM (SELECT *, $5 AND event_position / 20 % 10 = 0 AS is_first FROM added) deliveries`,
      [endpoint.endpointId, endpoint.clinicId, endpoint.applicationId, count, areOrdered],
    );

  /** Finds due endpoints, claims up to four deliveries and records their outcomes. @returns the number of deliveries */
  async function deliver(verdict: Verdict): Promise<number> {
    const { endpointId, applicationId } = endpoint;
    const now = Date.now();
    await findDueEndpoints(pool, [], now);
    const grants = [{ environment: "production", applicationId, endpointId, count: 4, inProgress: 0 } as const];
    const { deliveries } = await claimDueDeliveries(pool, grants, [], LEASE, now);
    const unknownGroup = { endpointId, orderingKey: randomUUID() };
    const ids = { deliveryId: randomUUID(), causeId: randomUUID(), correlationId: randomUUID() };
    const unknownDelivery = { ...ids, ...unknownGroup, attemptNumber: 1 } as ClaimedDelivery;
    const result = { statusCode: 200, error: null, retryAfter: null, responseBody: "", durationMs: 1 };
    const outcomes = [...deliveries, unknownDelivery].map((delivery) => ({ delivery, result, verdict }));
    for (const skipsLocked of [true, false]) await writeOutcomes(pool, outcomes, { skipsLocked, now });
    await arrange(pool, [unknownGroup], now);
    return deliveries.length;
  }

  const deliverEach = async () => ({
    delivered: await deliver({ status: "delivered" }),
    retried: await deliver({ status: "pending", nextAttemptAt: Date.now() + LEASE.leaseMs }),
  });

  async function countReadIndexEntries(): Promise<number> {
    await pool.query("SELECT pg_stat_force_next_flush()");
    const { rows } = await pool.query<{ count: number }>(
      "SELECT sum(idx_tup_read)::float8 AS count FROM pg_stat_user_indexes WHERE relname = 'pending_delivery'",
    );
    return rows[0]!.count;
  }

  it("statements that were planned while no delivery was pending read few of many pending deliveries", async () => {
    await insertDeliveries(2_000);
    await world.pool.query("DELETE FROM webhooks.pending_delivery");
    await world.pool.query("VACUUM (ANALYZE, TRUNCATE off) webhooks.pending_delivery");
    for (let n = 0; n < EXECUTIONS_BEFORE_KEPT_PLAN; n += 1) await deliverEach();
    await insertDeliveries(20_000);
    const entryCountBefore = await countReadIndexEntries();
    // After a failure, the endpoint gets only one slot.
    expect(await deliverEach()).to.deep.equal({ delivered: 1, retried: 4 });
    expect((await countReadIndexEntries()) - entryCountBefore).to.be.below(500);
  });

  it("the sweep of an endpoint with limited branches reads few of many pending deliveries", async () => {
    await world.pool.query("TRUNCATE webhooks.delivery, webhooks.pending_delivery");
    await insertDeliveries(20_000);
    const branchIds = Array.from({ length: 3 }, () => randomUUID()) as [string, string, string];
    const setBranchesSql = "UPDATE webhooks.pending_delivery SET branch_id = $1";
    await world.pool.query(setBranchesSql, [branchIds[0]]);
    await world.pool.query("VACUUM (ANALYZE) webhooks.pending_delivery");
    await world.pool.query(`UPDATE ${READ_MODEL_SCHEMA}.installation SET branch_ids = $1`, [
      JSON.stringify(branchIds.slice(0, 2)),
    ]);
    const sweep = async () => (await closeUnsendableDeliveries(pool, Date.now())).closedCounts.cancelled;
    const entryCountBefore = await countReadIndexEntries();
    expect(await sweep()).to.equal(0);
    expect((await countReadIndexEntries()) - entryCountBefore).to.be.below(500);
    const chosenSql = "SELECT delivery_id FROM webhooks.pending_delivery WHERE endpoint_id = $2 LIMIT 3";
    const values = [branchIds[2], endpoint.endpointId];
    await world.pool.query(`${setBranchesSql} WHERE delivery_id IN (${chosenSql})`, values);
    expect(await sweep()).to.equal(3);
    await world.pool.query(`UPDATE ${READ_MODEL_SCHEMA}.installation SET branch_ids = NULL`);
  });

  it("a claim, an outcome and an addition read few of many blocked deliveries", async () => {
    await world.pool.query("TRUNCATE webhooks.delivery, webhooks.pending_delivery");
    await world.pool.query("VACUUM (TRUNCATE off) webhooks.pending_delivery");
    await insertDeliveries(20_000, true);
    const entryCountBefore = await countReadIndexEntries();
    expect(await deliverEach()).to.deep.equal({ delivered: 0, retried: 0 });
    expect((await countReadIndexEntries()) - entryCountBefore).to.be.below(500);
  });

  it("the addition of deliveries reads few of many events, endpoints, installations and deliveries", async () => {
    const { endpointId, clinicId } = endpoint;
    const { eventId } = await world.requestAppointment(clinicId);
    await world.awaitRows("public_event", "event_id = $1", [eventId]);
    await world.stopRoles(projectors);
    await world.pool.query("TRUNCATE webhooks.delivery, webhooks.pending_delivery");
    /** Copies the rows of a read model `count` times, with changed columns. */
    const copyRows = (table: string, condition: string, changes: string, count: number) =>
      world.pool.query(
        `INSERT INTO ${READ_MODEL_SCHEMA}.${table}
         SELECT (jsonb_populate_record(t, jsonb_build_object(${changes}))).*
           FROM ${READ_MODEL_SCHEMA}.${table} t, generate_series(1, ${count}) n WHERE ${condition}`,
      );
    let checkpoint = 10n ** 15n;
    const moveCheckpoint = () =>
      world.pool.query(
        `WITH moved AS (UPDATE webhooks.checkpoint SET position = $1) UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET position = $1`,
        [checkpoint],
      );
    await moveCheckpoint();
    /** Adds events after the checkpoint, and their deliveries. */
    const addEvents = async (count: number) => {
      const changes = `'event_id', gen_random_uuid(), 'position', ${checkpoint} + n`;
      await copyRows("public_event", `t.event_id = '${eventId}'`, changes, count);
      await world.pool.query(`UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET position = $1`, [checkpoint + BigInt(count)]);
      const { position } = await addDeliveries(pool, checkpoint, MAX_BATCH_SIZE, Date.now());
      checkpoint = position!;
    };
    const countAdded = async (count: number) => {
      const sql = "SELECT FROM webhooks.delivery WHERE endpoint_id = $1 AND event_position > $2";
      return (await world.pool.query(sql, [endpointId, checkpoint - BigInt(count)])).rowCount;
    };
    /** Returns the numbers of rows that statements have read so far, by table. */
    const countReadRows = async () => {
      await pool.query("SELECT pg_stat_force_next_flush()");
      const { rows } = await pool.query<{ name: string; count: number }>(
        `SELECT relname AS name, (seq_tup_read + COALESCE(idx_tup_fetch, 0))::float8 AS count FROM pg_stat_user_tables
          WHERE schemaname IN ('webhooks', '${READ_MODEL_SCHEMA}')`,
      );
      return rows;
    };
    for (let n = 0; n < EXECUTIONS_BEFORE_KEPT_PLAN; n += 1) {
      await addEvents(1);
      expect(await countAdded(1)).to.equal(1);
    }
    await insertDeliveries(20_000);
    const other = "gen_random_uuid()";
    await copyRows("public_event", `t.event_id = '${eventId}'`, `'event_id', ${other}, 'position', n`, 20_000);
    const endpointChanges = `'endpoint_id', ${other}, 'owner_id', ${other}, 'application_id', ${other}`;
    await copyRows("webhook_endpoint", `t.endpoint_id = '${endpointId}'`, endpointChanges, 5_000);
    await copyRows("partner_application", "true", `'application_id', ${other}`, 5_000);
    const installationChanges = `'installation_id', ${other}, 'application_id', ${other}`;
    await copyRows("installation", `t.clinic_id = '${clinicId}'`, installationChanges, 5_000);
    const countsBefore = new Map((await countReadRows()).map(({ name, count }) => [name, count]));
    await addEvents(10);
    const readCounts = (await countReadRows()).map(
      ({ name, count }) => [name, count - countsBefore.get(name)!] as const,
    );
    expect(await countAdded(10)).to.equal(10);
    const readCount = readCounts.reduce((sum, [, count]) => sum + count, 0);
    expect(readCount, JSON.stringify(readCounts)).to.be.below(500);
  });
});
