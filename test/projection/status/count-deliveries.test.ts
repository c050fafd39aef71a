import { expect } from "chai";
import { countDeliveries, MAX_COUNTED_DELIVERIES } from "../../../projection/status/facts.ts";
import { useMigratedDatabase } from "../../support/migrated-database.ts";
import { LEASE, registerSender } from "../webhooks/world.ts";

const NOW = Date.parse("2030-05-01T09:00:00.000Z");

describe("the numbers of deliveries", () => {
  const database = useMigratedDatabase();
  beforeEach(async () => {
    await database.pool.query("TRUNCATE webhooks.delivery, webhooks.pending_delivery, webhooks.sender");
    await registerSender(database.pool);
  });

  /** Inserts pending deliveries. A quarter of them is due later, and a quarter is leased. */
  const insertPendingDeliveries = (count: number) =>
    database.pool.query(
      `INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, event_id, event_position, next_attempt_at, failed_attempt_count,
         attempt_count, lease_expires_at, sender_id)
       SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), n,
              $2::timestamptz + CASE n % 4 WHEN 0 THEN 1 ELSE -1 END * interval '1 minute', 0, 0,
              CASE n % 4 WHEN 1 THEN $2::timestamptz + interval '1 minute' END, $3
         FROM generate_series(1, $1::integer) n`,
      [count, new Date(NOW), LEASE.senderId],
    );
  const insertFailedDeliveries = (count: number) =>
    database.pool.query(
      `INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, application_id, environment, event_id,
         event_type, event_position, status, cause_id, correlation_id, created_at, updated_at)
       SELECT gen_random_uuid(), u, u, u, 'production', u, 'appointment.created', 0,
              CASE n % 2 WHEN 0 THEN 'failed' ELSE 'delivered' END, u, u, now(), now()
         FROM generate_series(1, 2 * $1::integer) n, gen_random_uuid() u`,
      [count],
    );

  it("without deliveries, all numbers are zero", async () => {
    expect(await countDeliveries(database.pool, NOW)).to.deep.equal({ pending: 0, due: 0, failed: 0 });
  });

  it("small numbers are exact", async () => {
    await insertPendingDeliveries(400);
    await insertFailedDeliveries(30);
    expect(await countDeliveries(database.pool, NOW)).to.deep.equal({ pending: 400, due: 200, failed: 30 });
  });

  it("large numbers are estimates", async () => {
    const count = 6 * MAX_COUNTED_DELIVERIES;
    await insertPendingDeliveries(count);
    await insertFailedDeliveries(count);
    const { pending, due, failed } = await countDeliveries(database.pool, NOW);
    // The standard error is 1.4 %.
    expect(pending).to.be.within(0.88 * count, 1.12 * count);
    expect(failed).to.be.within(0.88 * count, 1.12 * count);
    expect(due).to.be.within(0.4 * count, 0.6 * count);
  });
});
