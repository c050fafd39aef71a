import type { ClientBase, Pool } from "pg";

/** A stream of which the read models lack all events from a revision on. */
export interface QuarantinedStream {
  revision: bigint;
  /** Position of the first skipped event. */
  position: bigint;
  eventType: string;
  /** Error message, without values of the event. */
  cause: string;
  /** Clinic of the first skipped event; null if unknown. */
  clinicId: string | null;
  /** RFC 3339. */
  since: string;
  /** Number of skipped events. */
  events: bigint;
  /** Revision of the operators' last decision before the last failed replay; null if there was no replay. */
  replayedAfterDecision: bigint | null;
}

/** Cause of a quarantine that ends soon after that of another stream. It indicates no fault of this release. */
export const WAITS_FOR_SANDBOX = "the stream of the sandbox is quarantined";

/** Reads the quarantined streams of a schema of read models, by name. */
export async function readQuarantinedStreams(
  db: Pool | ClientBase,
  schema: string,
): Promise<Map<string, QuarantinedStream>> {
  const { rows } = await db.query<QuarantinedStream & { stream: string }>(
    `SELECT stream, revision, position, event_type AS "eventType", cause, clinic_id AS "clinicId",
            rfc3339(since) AS since, events, replayed_after_decision AS "replayedAfterDecision"
       FROM ${schema}.quarantined_stream ORDER BY position`,
  );
  return new Map(rows.map(({ stream, ...quarantinedStream }) => [stream, quarantinedStream]));
}

/** Records the events that a batch skips. The records of earlier batches keep their other values. */
export async function recordSkippedEvents(
  client: ClientBase,
  schema: string,
  skippedEvents: ReadonlyMap<string, QuarantinedStream>,
): Promise<void> {
  for (const [stream, { revision, position, eventType, cause, clinicId, since, events }] of skippedEvents) {
    await client.query(
      `INSERT INTO ${schema}.quarantined_stream AS q
         (stream, revision, position, event_type, cause, clinic_id, since, events)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
       ON CONFLICT (stream) DO UPDATE SET events = q.events + excluded.events`,
      [stream, revision, position, toStoredText(eventType), toStoredText(cause), clinicId, since, events],
    );
  }
}

const MAX_TEXT_LENGTH = 2_000;

/** @param decisionRevision revision of the operators' last decision before the replay */
export async function recordFailedReplay(
  pool: Pool,
  schema: string,
  stream: string,
  cause: string,
  decisionRevision: bigint,
): Promise<void> {
  await pool.query(
    `UPDATE ${schema}.quarantined_stream SET cause = $2, replayed_after_decision = $3 WHERE stream = $1`,
    [stream, toStoredText(cause), decisionRevision],
  );
}

/** Ends the quarantine of a stream whose events were replayed. */
export async function deleteQuarantinedStream(client: ClientBase, schema: string, stream: string): Promise<void> {
  await client.query(`DELETE FROM ${schema}.quarantined_stream WHERE stream = $1`, [stream]);
}

/** Replaces U+0000, which Postgres refuses. A record of a quarantine must not fail. */
export function toStoredText(text: string): string {
  return text.slice(0, MAX_TEXT_LENGTH).replaceAll("\0", "\uFFFD");
}
