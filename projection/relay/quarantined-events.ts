import type pg from "pg";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { toStoredText } from "../quarantine/quarantined-streams.ts";

/** Identifies a record of an event about which partners have got no webhook. */
export interface QuarantineRecord {
  position: bigint;
  /** Time of the latest failure, as Postgres formats it. */
  since: string;
}

const PAGE_SIZE = 500;

/**
 * Records an event that cannot be sent, so that relay and dispatchers can pass it. The relay tries the recorded events
 * again, at its start and every ten minutes.
 */
export async function quarantineEvent(
  pool: pg.Pool,
  { position, stream, revision, type }: LogPosition,
  cause: string,
): Promise<void> {
  await pool.query(
    `INSERT INTO webhooks.quarantined_event (position, stream, revision, event_type, cause, since)
     VALUES ($1, $2, $3, $4, $5, now())
     ON CONFLICT (position) DO UPDATE SET cause = excluded.cause, since = excluded.since`,
    [position, stream, revision, toStoredText(type), toStoredText(cause)],
  );
}

/** Reads the recorded events in log order. */
export async function* readQuarantinedEvents(
  pool: pg.Pool,
): AsyncGenerator<QuarantineRecord & Pick<LogPosition, "stream" | "revision">, void> {
  let after = -1n;
  for (;;) {
    const { rows } = await pool.query<QuarantineRecord & Pick<LogPosition, "stream" | "revision">>(
      `SELECT position, since::text, stream, revision FROM webhooks.quarantined_event
        WHERE position > $1 ORDER BY position LIMIT ${PAGE_SIZE}`,
      [after],
    );
    yield* rows;
    const lastRow = rows.at(-1);
    if (!lastRow || rows.length < PAGE_SIZE) return;
    after = lastRow.position;
  }
}

/** Deletes the records of events that were sent, unless the events have failed again or somebody has locked them. */
export async function deleteQuarantinedEvents(pool: pg.Pool, records: readonly QuarantineRecord[]): Promise<void> {
  if (records.length === 0) return;
  await pool.query(
    `DELETE FROM webhooks.quarantined_event WHERE position IN (
       SELECT q.position
         FROM webhooks.quarantined_event q JOIN unnest($1::bigint[], $2::timestamptz[]) AS sent (position, since)
           ON q.position = sent.position AND q.since = sent.since
          FOR UPDATE OF q SKIP LOCKED)`,
    [records.map(({ position }) => position), records.map(({ since }) => since)],
  );
}
