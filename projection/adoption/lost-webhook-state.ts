import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { readStoredEvents } from "../../shared/eventstore/read-log.ts";
import { closeConnection, connectWithoutTimeouts } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";

/** Deliveries and outbox entries whose events are not in the log. */
interface LostRows {
  deliveryIds: string[];
  outboxEventIds: string[];
}

const PAGE_SIZE = 1_000;
const MAX_PARALLEL_READS = 16;

interface RowOfEvent {
  key: string;
  stream: string;
  revision: bigint;
  /** Id of the event. If null, any event at this revision of the stream is accepted. */
  id: string | null;
}

/**
 * Finds the pending deliveries and outbox entries whose events are not in the log. For an outbox entry about a
 * delivery, the log must hold the delivery's event. For any other outbox entry, the log must hold the stream to which
 * the entry will be appended.
 */
export async function findLostRows(client: EventStoreDBClient, pool: pg.Pool, signal: AbortSignal): Promise<LostRows> {
  const findLostKeys = (sql: string) =>
    findRowsWithoutEvent(client, (lastRow) => pool.query<RowOfEvent>(sql, [lastRow?.key]), signal);
  const deliveryIds = await findLostKeys(PENDING_DELIVERIES_SQL);
  return { deliveryIds, outboxEventIds: await findLostKeys(OUTBOX_ENTRIES_SQL) };
}

/**
 * Cancels the deliveries, deletes the outbox entries, and deletes the progress of lost replays. The read models must
 * already be those of the adopted log.
 *
 * @returns the number of cancelled deliveries and of deleted outbox entries
 */
export async function closeLostDeliveries(
  connection: pg.ClientBase,
  { deliveryIds, outboxEventIds }: LostRows,
  now: number,
): Promise<{ cancelledDeliveryCount: number; deletedOutboxEntryCount: number }> {
  const cancelResult = await connection.query(
    `WITH cancelled AS (
       DELETE FROM webhooks.pending_delivery WHERE delivery_id = ANY ($1::uuid[]) RETURNING delivery_id, attempt_count)
     UPDATE webhooks.delivery d
        SET status = 'cancelled', attempt_count = cancelled.attempt_count, next_attempt_at = NULL, updated_at = $2
       FROM cancelled WHERE d.delivery_id = cancelled.delivery_id`,
    [deliveryIds, toInstant(now)],
  );
  const deleteResult = await connection.query("DELETE FROM webhooks.outbox WHERE event_id = ANY ($1::uuid[])", [
    outboxEventIds,
  ]);
  await deleteLostProgress(connection);
  return { cancelledDeliveryCount: cancelResult.rowCount ?? 0, deletedOutboxEntryCount: deleteResult.rowCount ?? 0 };
}

const PENDING_DELIVERIES_SQL = `
  SELECT delivery_id AS key, d.event_stream AS stream, d.event_revision AS revision, d.event_id AS id
    FROM webhooks.pending_delivery JOIN webhooks.delivery d USING (delivery_id)
   WHERE $1::uuid IS NULL OR delivery_id > $1
   ORDER BY delivery_id LIMIT ${PAGE_SIZE}`;

const OUTBOX_ENTRIES_SQL = `
  SELECT o.event_id AS key, COALESCE(d.event_stream, o.stream) AS stream, COALESCE(d.event_revision, 0) AS revision,
         d.event_id AS id
    FROM webhooks.outbox o
    LEFT JOIN webhooks.delivery d
      ON d.delivery_id = CASE WHEN o.stream LIKE 'webhookDelivery-%' THEN substr(o.stream, 17)::uuid END
   WHERE $1::uuid IS NULL OR o.event_id > $1
   ORDER BY o.event_id LIMIT ${PAGE_SIZE}`;

/** Checks all rows, page by page. @returns keys of the rows whose events are not in the log */
async function findRowsWithoutEvent(
  client: EventStoreDBClient,
  readPageAfter: (lastRow: RowOfEvent | undefined) => Promise<{ rows: RowOfEvent[] }>,
  signal: AbortSignal,
): Promise<string[]> {
  const lostKeys: string[] = [];
  let lastRow: RowOfEvent | undefined;
  while (!signal.aborted) {
    const { rows }: { rows: RowOfEvent[] } = await readPageAfter(lastRow);
    const uncheckedRows = [...rows];
    const checkRows = async () => {
      for (let row = uncheckedRows.pop(); row; row = uncheckedRows.pop()) {
        if (!(await isInLog(client, row))) lostKeys.push(row.key);
      }
    };
    await Promise.all(Array.from({ length: MAX_PARALLEL_READS }, checkRows));
    if (rows.length < PAGE_SIZE) break;
    lastRow = rows.at(-1);
  }
  return lostKeys;
}

async function isInLog(client: EventStoreDBClient, { stream, revision, id }: RowOfEvent): Promise<boolean> {
  const [event] = await readStoredEvents(client, stream, { fromRevision: revision, maxCount: 1 });
  return event?.revision === revision && (id === null || event.id === id);
}

/**
 * Deletes the log positions of replay requests that do not exist in the adopted log. Otherwise, a later request at a
 * lower position of the adopted log would be ignored.
 * @param after last log position that both logs share
 */
export async function deleteReplayPositions(pool: pg.Pool, after: bigint): Promise<void> {
  const connection = await connectWithoutTimeouts(pool);
  try {
    await connection.query("UPDATE webhooks.delivery SET replay_position = NULL WHERE replay_position > $1", [after]);
  } finally {
    await closeConnection(connection);
  }
}

/**
 * Deletes the progress of replays whose request is not in the adopted log. A repeated request has the same replay id,
 * so it would otherwise inherit the progress, and may never start. A request that is newer than the progress was
 * repeated after the log was replaced.
 */
async function deleteLostProgress(connection: pg.ClientBase): Promise<void> {
  await connection.query(
    `DELETE FROM webhooks.replay w WHERE NOT EXISTS (
       SELECT FROM ${READ_MODEL_SCHEMA}.webhook_replay r
        WHERE r.replay_id = w.replay_id AND r.requested_at <= w.updated_at)`,
  );
}
