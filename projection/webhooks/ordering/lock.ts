import type pg from "pg";

/**
 * Number of advisory locks that all endpoints share. The number is limited, so that a transaction about many endpoints
 * needs few entries in the lock table of Postgres.
 */
const LOCK_COUNT = 64;

/** Returns SQL for the key of the advisory lock that an endpoint shares with other endpoints. */
const buildLockKeySql = (endpointIdSql: string) =>
  `hashtextextended('delivery order ' || get_byte(uuid_send(${endpointIdSql}), 15) % ${LOCK_COUNT}, 0)`;

/**
 * SQL condition that is true if the row `pending_delivery` has no ordering key, or if the transaction now holds the
 * lock of the row's endpoint. Never waits, so a statement that also locks rows cannot cause a deadlock.
 */
export const TRY_LOCK_ORDER_SQL = `
  (ordering_key IS NULL OR pg_try_advisory_xact_lock(${buildLockKeySql("pending_delivery.endpoint_id")}))`;

/**
 * Locks the order of deliveries to endpoints until the transaction ends. Every transaction that adds or ends deliveries
 * with an ordering key first takes this lock. Otherwise a transaction could add a held delivery while another
 * transaction ends the delivery before it, and no transaction would release the added delivery.
 *
 * Transactions that only update several such deliveries take the lock too. Otherwise they could lock the rows in
 * another order than a transaction that holds the deliveries, which causes a deadlock. A claim needs no lock, because
 * it never waits for a row.
 *
 * The transaction must not have locked any rows. The locks are taken in the same order by all transactions.
 */
export async function lockOrder(client: pg.ClientBase, deliveries: readonly { endpointId: string }[]): Promise<void> {
  const distinctIds = [...new Set(deliveries.map(({ endpointId }) => endpointId))];
  if (distinctIds.length === 0) return;
  await client.query({
    name: "lock order",
    text: `SELECT pg_advisory_xact_lock(key)
             FROM (SELECT DISTINCT ${buildLockKeySql("e.id")} AS key FROM unnest($1::uuid[]) AS e (id) ORDER BY key) locks`,
    values: [distinctIds],
  });
}
