import { type EventStoreDBClient, StreamDeletedError, StreamNotFoundError } from "@eventstore/db-client";
import type pg from "pg";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { IN_LANE } from "../webhooks/scheduling/due.ts";

/** Rows that belong to events that the log does not hold. */
export interface LostRows {
  /** Ids of pending deliveries. */
  deliveries: string[];
  /** Ids of outbox entries. */
  facts: string[];
}

const PAGE_SIZE = 1_000;
const MAX_PARALLEL_READS = 16;

/** Milliseconds. */
const READ_TIMEOUT_MS = 4_000;

/** An event that the log may hold. Without an id, any event at that revision counts. */
interface ExpectedEvent {
  stream: string;
  revision: bigint;
  id: string | null;
}

/**
 * Finds the pending deliveries and outbox entries of events that the log does not hold. An entry of a delivery belongs
 * to the delivery's event. Any other entry belongs to the stream to which it will be appended.
 */
export async function findLost(
  client: EventStoreDBClient,
  pool: pg.Pool,
  signal: AbortSignal,
): Promise<LostRows> {
  const deliveries: string[] = [];
  for (const lane of Object.values(IN_LANE)) {
    const pageAfter = (last: PendingRow | undefined) =>
      pool.query<PendingRow>(pendingIn(lane), [last?.endpoint, last?.due, last?.key]);
    deliveries.push(...(await findMissing(client, pageAfter, signal)));
  }
  const facts = await findMissing(client, (last) => pool.query<Row>(FACTS, [last?.key]), signal);
  return { deliveries, facts };
}

/** Cancels the deliveries and deletes the outbox entries. @returns the number of each */
export async function closeLost(
  connection: pg.ClientBase,
  { deliveries, facts }: LostRows,
  now: number,
): Promise<{ cancelled: number; dropped: number }> {
  const cancelled = await connection.query(
    `UPDATE webhooks.delivery
        SET status = 'cancelled', next_attempt_at = NULL, lease_expires_at = NULL, updated_at = $2
      WHERE delivery_id = ANY ($1::uuid[]) AND status = 'pending'`,
    [deliveries, toInstant(now)],
  );
  const dropped = await connection.query("DELETE FROM webhooks.outbox WHERE event_id = ANY ($1::uuid[])", [
    facts,
  ]);
  return { cancelled: cancelled.rowCount ?? 0, dropped: dropped.rowCount ?? 0 };
}

interface Row extends ExpectedEvent {
  /** Id of the delivery or the outbox entry. */
  key: string;
}

interface PendingRow extends Row {
  endpoint: string;
  due: string;
}

/** Pages follow the lane's index; without the lane's condition each page would read finished deliveries too. */
const pendingIn = (lane: string) => `
  SELECT delivery_id AS key, event_stream AS stream, event_revision AS revision, event_id AS id,
         endpoint_id AS endpoint, due_at::text AS due
    FROM webhooks.delivery
   WHERE status = 'pending' AND ${lane}
     AND ($1::uuid IS NULL OR ((endpoint_id, due_at) >= ($1, $2::timestamptz)
                               AND (endpoint_id, due_at, delivery_id) > ($1, $2, $3::uuid)))
   ORDER BY endpoint_id, due_at, delivery_id LIMIT ${PAGE_SIZE}`;

const FACTS = `
  SELECT o.event_id AS key, COALESCE(d.event_stream, o.stream) AS stream, COALESCE(d.event_revision, 0) AS revision,
         d.event_id AS id
    FROM webhooks.outbox o
    LEFT JOIN webhooks.delivery d
      ON d.delivery_id = CASE WHEN o.stream LIKE 'webhookDelivery-%' THEN substr(o.stream, 17)::uuid END
   WHERE $1::uuid IS NULL OR o.event_id > $1
   ORDER BY o.event_id LIMIT ${PAGE_SIZE}`;

/** Checks all rows, page by page. @returns keys of the rows whose event the log does not hold */
async function findMissing<Found extends Row>(
  client: EventStoreDBClient,
  pageAfter: (last: Found | undefined) => Promise<{ rows: Found[] }>,
  signal: AbortSignal,
): Promise<string[]> {
  const lost: string[] = [];
  let last: Found | undefined;
  while (!signal.aborted) {
    const { rows }: { rows: Found[] } = await pageAfter(last);
    const waiting = [...rows];
    const work = async () => {
      for (let row = waiting.pop(); row; row = waiting.pop()) {
        if (!(await holds(client, row))) lost.push(row.key);
      }
    };
    await Promise.all(Array.from({ length: MAX_PARALLEL_READS }, work));
    if (rows.length < PAGE_SIZE) break;
    last = rows.at(-1);
  }
  return lost;
}

async function holds(client: EventStoreDBClient, { stream, revision, id }: ExpectedEvent): Promise<boolean> {
  let found = false;
  try {
    const options = { fromRevision: revision, maxCount: 1, deadline: READ_TIMEOUT_MS };
    for await (const { event } of client.readStream(stream, options)) {
      found = event?.revision === revision && (id === null || event.id === id);
    }
  } catch (error) {
    if (!(error instanceof StreamNotFoundError || error instanceof StreamDeletedError)) throw error;
  }
  return found;
}
