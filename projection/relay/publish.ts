import { headers, type JetStreamClient } from "nats";
import type pg from "pg";
import type { Environment } from "../../shared/domain/events/fields.ts";
import {
  PUBLIC_EVENT_JSON_SQL,
  type PublicEventRow,
  renderPublicEvent,
} from "../../shared/partner-api/webhook-body.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { endWith, startSpan } from "../../shared/tracing/span.ts";
import { setEventAside } from "../checkpoints/late-events.ts";
import type { WebhookCheckpoint } from "../checkpoints/webhook-checkpoints.ts";
import { type EventStream, isApiError } from "./event-stream.ts";

/** Headers of a message. Positions are decimal numbers. Only their order has a meaning. */
export const MESSAGE_HEADERS = {
  position: "Clinic-Position",
  /** Position of the previous public event; absent for the first. */
  previousPosition: "Clinic-Previous-Position",
  /** Present if the message does not follow the order of the log. */
  late: "Clinic-Late",
  traceparent: "traceparent",
} as const;

const CONFIRM_TIMEOUT_MS = 5_000;

/** Maximum number of messages that are published together. */
const MAX_BATCH_SIZE = 250;

interface PublishedEvent {
  eventId: string;
  position: bigint;
  environment: Environment;
  traceparent: string | null;
  isLate: boolean;
  event: PublicEventRow;
}

interface EventBatch {
  /**
   * Position and event to which the checkpoint can move after the batch. If no more public events follow, this is the
   * position of the read models.
   */
  end: { position: bigint; eventId: string | null };
  events: PublishedEvent[];
  /** Position of the last public event up to the checkpoint; null if there is none. */
  previousPosition: bigint | null;
  hasMore: boolean;
}

/**
 * Selects late events up to the checkpoint ($1). If all late events fit into the batch, also selects the public events
 * after the checkpoint. One snapshot for both keeps the events of a stream in order. LATERAL with LIMIT makes Postgres
 * look up each row by an index, even if it planned the statement while the tables were small.
 */
const SELECT_SQL = `
  WITH late AS MATERIALIZED (
    SELECT l.event_id, l.position, true AS is_late
      FROM webhooks.late_event l
     CROSS JOIN LATERAL (
       SELECT FROM ${READ_MODEL_SCHEMA}.public_event WHERE event_id = l.event_id LIMIT 1) e
     WHERE needs_message AND next_try_at <= now() AND l.position <= $1
     ORDER BY l.position LIMIT ${MAX_BATCH_SIZE}
  ),
  ranged AS (
    SELECT event_id, position, false AS is_late FROM ${READ_MODEL_SCHEMA}.public_event
     WHERE type IS NOT NULL AND position > $1 AND (SELECT count(*) FROM late) < ${MAX_BATCH_SIZE}
     ORDER BY position LIMIT ${MAX_BATCH_SIZE}
  ),
  chosen AS (TABLE late UNION ALL TABLE ranged)
  SELECT c.position AS "readPosition", c.event_id AS "readEventId",
         (SELECT max(position) FROM ${READ_MODEL_SCHEMA}.public_event WHERE type IS NOT NULL AND position <= $1)
           AS "previousPosition", found.*
    FROM ${READ_MODEL_SCHEMA}.checkpoint c
    LEFT JOIN (
      SELECT e.event_id AS "eventId", e.position, e.environment, e.traceparent, is_late AS "isLate",
             json_build_object(${PUBLIC_EVENT_JSON_SQL}) AS event
        FROM chosen
       CROSS JOIN LATERAL (
         SELECT * FROM ${READ_MODEL_SCHEMA}.public_event WHERE event_id = chosen.event_id LIMIT 1) e) found ON true
   ORDER BY NOT found."isLate", found.position`;

/** Selects the next events to publish: late events first, then the events after the position `after`. */
export async function selectEvents(pool: pg.Pool, after: bigint): Promise<EventBatch> {
  const { rows } = await pool.query<
    Pick<EventBatch, "previousPosition"> & { readPosition: bigint; readEventId: string | null } & (
        | PublishedEvent
        | Record<keyof PublishedEvent, null>
      )
  >({ name: "events to publish", text: SELECT_SQL, values: [after] });
  const [first] = rows;
  if (!first) throw new Error("The read models have no log position.");
  const events = rows.filter((row): row is typeof row & PublishedEvent => row.eventId !== null);
  const ranged = events.filter(({ isLate }) => !isLate);
  const { previousPosition } = first;
  if (events.length - ranged.length === MAX_BATCH_SIZE)
    return { end: { position: after, eventId: null }, events, previousPosition, hasMore: true };
  const hasMore = ranged.length === MAX_BATCH_SIZE;
  const last = hasMore ? ranged.at(-1) : undefined;
  const readEnd = { position: first.readPosition, eventId: first.readEventId };
  return { end: last ?? readEnd, events, previousPosition, hasMore };
}

interface PublishDeps {
  pool: pg.Pool;
  jetStream: JetStreamClient;
  stream: EventStream;
  maxPayloadBytes: number;
  logger: Logger;
}

/**
 * Publishes one message for each event, and waits until NATS confirms all of them. An event without a valid message
 * becomes a late event, and is tried again later.
 *
 * @param previousPosition position of the previous public event; null for the first event
 * @returns highest sequence number that NATS confirmed; undefined without messages
 * @throws the error of the NATS client if a message is not confirmed
 */
export async function publishEvents(
  deps: PublishDeps,
  events: readonly PublishedEvent[],
  previousPosition: bigint | null,
): Promise<bigint | undefined> {
  let lastPosition = previousPosition;
  const setAside = async (event: PublishedEvent, cause: string) => {
    deps.logger.error({ eventId: event.eventId, cause }, "An event is not published in NATS.");
    await setEventAside(deps.pool, event, "messages", cause);
  };
  const confirmations = new Map<PublishedEvent, Promise<{ seq: number }>>();
  for (const event of events) {
    const payload = encode(event);
    if (!payload) await setAside(event, "The event has no valid body.");
    else if (payload.length > deps.maxPayloadBytes) await setAside(event, TOO_LARGE);
    else {
      confirmations.set(event, publish(deps, event, payload, lastPosition));
      if (!event.isLate) lastPosition = event.position;
    }
  }
  await Promise.allSettled(confirmations.values());
  let lastSequence: number | undefined;
  for (const [event, confirmation] of confirmations) {
    try {
      lastSequence = Math.max(lastSequence ?? 0, (await confirmation).seq);
    } catch (error) {
      if (!isApiError(error, [TOO_LARGE_CODE])) throw error;
      await setAside(event, TOO_LARGE);
    }
  }
  return lastSequence === undefined ? undefined : BigInt(lastSequence);
}

const TOO_LARGE = "The message is larger than NATS allows (max_payload, or max_msg_size of the stream).";

/** Error code of JetStream if a message is larger than the stream allows. */
const TOO_LARGE_CODE = 10_054;

const textEncoder = new TextEncoder();

function encode({ event, environment }: PublishedEvent): Uint8Array | undefined {
  try {
    return textEncoder.encode(JSON.stringify(renderPublicEvent(event, environment)));
  } catch {
    return undefined;
  }
}

async function publish(
  { jetStream, stream }: PublishDeps,
  { eventId, position, environment, traceparent, isLate, event }: PublishedEvent,
  payload: Uint8Array,
  previousPosition: bigint | null,
): Promise<{ seq: number }> {
  const span = startSpan("publish message", "producer", traceparent);
  const messageHeaders = headers();
  messageHeaders.set(MESSAGE_HEADERS.position, String(position));
  if (isLate) messageHeaders.set(MESSAGE_HEADERS.late, "true");
  else if (previousPosition !== null) messageHeaders.set(MESSAGE_HEADERS.previousPosition, String(previousPosition));
  const outgoingTraceparent = span?.traceparent ?? traceparent;
  if (outgoingTraceparent) messageHeaders.set(MESSAGE_HEADERS.traceparent, outgoingTraceparent);
  const subject = `${stream.subjectPrefix}.${environment}.${event.type}`;
  const options = { msgID: eventId, headers: messageHeaders, timeout: CONFIRM_TIMEOUT_MS };
  const confirmation = jetStream.publish(subject, payload, options);
  if (span) endWith(span, confirmation);
  return confirmation;
}

/**
 * Moves the checkpoint of the messages, and removes the late events that now have a message.
 *
 * @param published position and id of the last event, and the last sequence number that NATS confirmed
 * @param lateEventIds ids of the published late events
 * @throws {Error} if another process moved the checkpoint
 */
export async function recordPublished(
  pool: pg.Pool,
  checkpoint: WebhookCheckpoint,
  published: Pick<WebhookCheckpoint, "position" | "eventId" | "sequence">,
  lateEventIds: readonly string[],
): Promise<WebhookCheckpoint> {
  const { position, eventId, sequence } = published;
  const { rowCount } = await pool.query({
    name: "record published events",
    text: `WITH moved AS (
             UPDATE webhooks.checkpoint SET position = $2, event_id = $3, sequence = $4
              WHERE name = 'messages' AND position = $1 AND read_models = '${READ_MODEL_SCHEMA}'
             RETURNING position),
           late AS (
             SELECT event_id, needs_deliveries FROM webhooks.late_event
              WHERE event_id = ANY ($5::uuid[]) AND next_try_at <= now() AND EXISTS (SELECT FROM moved) FOR UPDATE SKIP LOCKED),
           done AS (
             DELETE FROM webhooks.late_event
              WHERE event_id IN (SELECT event_id FROM late WHERE NOT needs_deliveries)),
           published AS (
             UPDATE webhooks.late_event SET needs_message = false
              WHERE event_id IN (SELECT event_id FROM late WHERE needs_deliveries))
           SELECT FROM moved`,
    values: [checkpoint.position, position, eventId, sequence, lateEventIds],
  });
  if (rowCount !== 1)
    throw new Error(`The checkpoint of the messages is no longer at position ${checkpoint.position}.`);
  return { ...checkpoint, position, eventId, sequence };
}
