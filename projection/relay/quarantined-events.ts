import type pg from "pg";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";

/** An event that the relay could not turn into a message. Partners have got no webhook for it. */
export interface QuarantinedEvent extends LogPosition {
  cause: string;
}

const PAGE_SIZE = 500;

/** Records an event, so that the relay can pass it. When a relay starts, it tries the recorded events again. */
export async function quarantineEvent(
  pool: pg.Pool,
  { position, stream, revision, type }: LogPosition,
  cause: string,
): Promise<void> {
  await pool.query(
    `INSERT INTO webhooks.quarantined_event (position, stream, revision, event_type, cause, since)
     VALUES ($1, $2, $3, $4, $5, now()) ON CONFLICT DO NOTHING`,
    [position, stream, revision, type, cause],
  );
}

/** Reads the recorded events in log order. */
export async function* readQuarantinedEvents(pool: pg.Pool): AsyncGenerator<QuarantinedEvent, void> {
  let after = -1n;
  for (;;) {
    const { rows } = await pool.query<QuarantinedEvent>(
      `SELECT position, stream, revision, event_type AS type, cause FROM webhooks.quarantined_event
        WHERE position > $1 ORDER BY position LIMIT ${PAGE_SIZE}`,
      [after],
    );
    yield* rows;
    const lastRow = rows.at(-1);
    if (!lastRow || rows.length < PAGE_SIZE) return;
    after = lastRow.position;
  }
}

export async function deleteQuarantinedEvents(pool: pg.Pool, positions: readonly bigint[]): Promise<void> {
  if (positions.length === 0) return;
  await pool.query("DELETE FROM webhooks.quarantined_event WHERE position = ANY ($1::bigint[])", [positions]);
}
