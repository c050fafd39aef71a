import type { ClientBase, Pool } from "pg";
import type { Tables } from "../engine/rows.ts";

/** Stream whose events from `revision` on are missing in the read models. Only a rebuild adds these events. */
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
}

/** Cause of a quarantine that follows from the quarantine of a sandbox. It indicates no fault of this release. */
export const WAITS_FOR_SANDBOX = "the stream of the sandbox is quarantined";

/** Reads the quarantined streams in a schema, by name. */
export async function readQuarantinedStreams(
  db: Pool | ClientBase,
  schema: string,
): Promise<Map<string, QuarantinedStream>> {
  const { rows } = await db.query<QuarantinedStream & { stream: string }>(
    `SELECT stream, revision, position, event_type AS "eventType", cause, clinic_id AS "clinicId",
            rfc3339(since) AS since, events
       FROM ${schema}.quarantined_stream ORDER BY position`,
  );
  return new Map(rows.map(({ stream, ...quarantinedStream }) => [stream, quarantinedStream]));
}

/**
 * Records the quarantined streams of a batch, and adds the number of skipped events to existing records. If a stream
 * grants access, public events after `unmatched_position` may lack deliveries; see `recordMissingEvents`.
 */
export async function recordSkippedEvents(
  { client, schema }: Tables,
  skippedEvents: ReadonlyMap<string, QuarantinedStream>,
): Promise<void> {
  for (const [stream, { revision, position, eventType, cause, clinicId, since, events }] of skippedEvents) {
    await client.query(
      `INSERT INTO ${schema}.quarantined_stream AS q
         (stream, revision, position, event_type, cause, clinic_id, since, events, unmatched_position)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8,
               LEAST($3, (SELECT position FROM webhooks.checkpoint WHERE name = 'deliveries')))
       ON CONFLICT (stream) DO UPDATE SET events = q.events + excluded.events`,
      [stream, revision, position, toStoredText(eventType), toStoredText(cause), clinicId, since, events],
    );
  }
}

const MAX_TEXT_LENGTH = 2_000;

/** Shortens a text, and replaces U+0000, which Postgres refuses. Recording a quarantine must not fail. */
function toStoredText(text: string): string {
  return text.slice(0, MAX_TEXT_LENGTH).replaceAll("\0", "\uFFFD");
}
