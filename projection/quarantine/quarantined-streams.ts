import type { EventStoreDBClient, RecordedEvent as StoredEvent } from "@eventstore/db-client";
import type { ClientBase, Pool } from "pg";
import { toStreamName } from "../../shared/domain/events/category.ts";
import type { EventMetadata } from "../../shared/domain/events/metadata.ts";
import { type QuarantineEvent, quarantineStreams } from "../../shared/domain/events/quarantine.ts";
import { EventSchemaError, parseStoredEvent } from "../../shared/domain/events/stored-event.ts";
import { EMPTY_STREAM } from "../../shared/eventstore/log.ts";
import { readStoredEvents } from "../../shared/eventstore/read-log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { recordUnmatchedEvents } from "../checkpoints/late-events.ts";

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

/**
 * Cause of a quarantine that lasts only until the quarantine of another stream ends. It indicates no fault of this
 * release.
 */
export const WAITS_FOR_SANDBOX = "the stream of the sandbox is quarantined";

/** Reads the quarantined streams in a schema, by name. */
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

/**
 * Records the events that a batch skips. The records of earlier batches keep their other values. If the stream grants
 * access, public events after `unmatched_position` get no deliveries from now on: see {@link recordUnmatchedEvents}.
 */
export async function recordSkippedEvents(
  client: ClientBase,
  schema: string,
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
  if (schema === READ_MODEL_SCHEMA) await recordUnmatchedEvents(client, schema, stream);
  await client.query(`DELETE FROM ${schema}.quarantined_stream WHERE stream = $1`, [stream]);
}

/** Replaces U+0000, which Postgres refuses. A record of a quarantine must not fail. */
export function toStoredText(text: string): string {
  return text.slice(0, MAX_TEXT_LENGTH).replaceAll("\0", "\uFFFD");
}

/** Stream of the operators' decisions. */
export const QUARANTINE_STREAM = toStreamName(quarantineStreams, "streams");

export interface QuarantineDecision {
  stream: string;
  revision: bigint;
  /** Position of the first skipped event. */
  position: bigint;
  eventType: string;
  /** Error message of the projectors. */
  cause: string;
  /** Reason that the operator gave. */
  reason: string;
  actor: string;
  /** RFC 3339. */
  since: string;
}

interface QuarantineDecisions {
  /** Streams that the projectors skip. */
  streams: ReadonlyMap<string, QuarantineDecision>;
  /** Log position of the last confirmation of each event type. */
  confirmedTypes: ReadonlyMap<string, bigint>;
  /** Revision of the last quarantine event that the decisions reflect; `EMPTY_STREAM` if there is none. */
  lastRevision: bigint;
}

function foldDecisions(events: readonly RecordedDecision[]): Omit<QuarantineDecisions, "lastRevision"> {
  const streams = new Map<string, QuarantineDecision>();
  const confirmedTypes = new Map<string, bigint>();
  for (const { type, data, metadata, logPosition } of events) {
    if (type === "StreamResumed") streams.delete(data.stream);
    else if (type === "EventTypeConfirmed") confirmedTypes.set(data.eventType, logPosition);
    else {
      const { stream, revision, position, eventType, cause, reason } = data;
      const decision = { revision: BigInt(revision), position: BigInt(position), eventType, cause, reason };
      streams.set(stream, { stream, ...decision, actor: metadata.actor.id, since: metadata.occurredAt });
    }
  }
  return { streams, confirmedTypes };
}

/** Returns true if an operator has decided that the projectors skip an event that fails. */
export function isQuarantined(
  { streams, confirmedTypes }: QuarantineDecisions,
  { stream, revision, type, position }: LogPosition,
): boolean {
  const quarantinedStream = streams.get(stream);
  if (quarantinedStream && quarantinedStream.revision <= revision) return true;
  return position < (confirmedTypes.get(type) ?? position);
}

/**
 * Reads the operators' decisions. A decision that this release cannot read concerns one stream, so it is ignored. The
 * status shows it, because the projectors quarantine the stream of the decisions.
 *
 * @throws {LogUnavailableError}
 */
export async function readQuarantineDecisions(client: EventStoreDBClient): Promise<QuarantineDecisions> {
  const events: RecordedDecision[] = [];
  let lastRevision = EMPTY_STREAM;
  for (;;) {
    const page = await readStoredEvents(client, QUARANTINE_STREAM, {
      fromRevision: lastRevision + 1n,
      maxCount: PAGE_SIZE,
    });
    for (const storedEvent of page) {
      const event = parseIfReadable(storedEvent);
      if (event) events.push(event);
      lastRevision = storedEvent.revision;
    }
    if (page.length < PAGE_SIZE) return { ...foldDecisions(events), lastRevision };
  }
}

const PAGE_SIZE = 500;

type RecordedDecision = QuarantineEvent & { metadata: EventMetadata; logPosition: bigint };

function parseIfReadable(storedEvent: StoredEvent): RecordedDecision | undefined {
  try {
    // All events of the stream belong to its category.
    const event = parseStoredEvent(storedEvent) as QuarantineEvent & { metadata: EventMetadata };
    return { ...event, logPosition: storedEvent.position?.commit ?? 0n };
  } catch (error) {
    if (error instanceof EventSchemaError) return undefined;
    throw error;
  }
}
