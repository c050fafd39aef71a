import type pg from "pg";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { findAnimalId } from "../../../shared/partner-api/feed-event.ts";
import type { EventMessage } from "../../relay/message.ts";

/** An event and an endpoint that receives it. */
export interface EndpointMatch {
  event: EventMessage;
  endpointId: string;
  applicationId: string;
  /** Clinic of the endpoint; null if the endpoint belongs to the application. */
  clinicId: string | null;
  /** Status of the new delivery: `pending` if the endpoint is active, `skipped` if the endpoint is disabled. */
  status: "pending" | "skipped";
  /** Null if the endpoint does not get its events in order. */
  orderingKey: string | null;
}

interface InsertedDelivery {
  deliveryId: string;
  isHeld: boolean;
}

/** Returns SQL that is true if a match belongs to a group with a pending delivery. Each condition has an index. */
const buildExistsSql = (condition: string) => `
  EXISTS (SELECT FROM webhooks.pending_delivery p
           WHERE p.endpoint_id = matched.endpoint_id AND p.ordering_key = matched.ordering_key AND ${condition})`;

/** A delivery is held if its group has a pending delivery. */
const IS_HELD_SQL = `
  ordering_key IS NOT NULL
    AND (is_follower OR ${buildExistsSql("NOT p.is_held")} OR ${buildExistsSql("p.is_held")})`;

/** Inserts deliveries, and a row in `pending_delivery` for each that is pending. */
const INSERT_SQL = `
  WITH matched AS MATERIALIZED (
    SELECT delivery_id, endpoint_id, application_id, clinic_id, branch_id, environment, event_id, event_type,
           event_stream, event_revision, body, status, cause_id, correlation_id, traceparent,
           ordering_key, is_follower, animal_id
      FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::uuid[], $8::text[],
                  $9::text[], $10::bigint[], string_to_array($11, E'\\n'), $12::text[], $13::uuid[], $14::uuid[],
                  $16::text[], $17::uuid[], $18::boolean[], $19::uuid[])
        AS u (delivery_id, endpoint_id, application_id, clinic_id, branch_id, environment, event_id, event_type,
              event_stream, event_revision, body, status, cause_id, correlation_id, traceparent,
              ordering_key, is_follower, animal_id)
     ORDER BY delivery_id
  ),
  added AS (
    INSERT INTO webhooks.delivery (delivery_id, endpoint_id, application_id, clinic_id, branch_id, animal_id, environment,
      event_id, event_type, event_stream, event_revision, status, cause_id, correlation_id, next_attempt_at, created_at,
      updated_at)
    SELECT delivery_id, endpoint_id, application_id, clinic_id, branch_id, animal_id, environment, event_id, event_type,
           event_stream, event_revision, status, cause_id, correlation_id,
           CASE status WHEN 'pending' THEN $15::timestamptz END, $15, $15
      FROM matched
    ON CONFLICT DO NOTHING
    RETURNING delivery_id
  ),
  queued AS (
    INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, branch_id, animal_id, body, next_attempt_at,
      round_attempt_count, attempt_count, traceparent, ordering_key, event_revision, is_held)
    SELECT delivery_id, endpoint_id, branch_id, animal_id, body, $15, 0, 0, traceparent, ordering_key,
           CASE WHEN ordering_key IS NOT NULL THEN event_revision END, ${IS_HELD_SQL}
      FROM matched JOIN added USING (delivery_id)
     WHERE status = 'pending'
    RETURNING delivery_id, is_held
  )
  SELECT delivery_id AS "deliveryId", COALESCE(queued.is_held, false) AS "isHeld"
    FROM added LEFT JOIN queued USING (delivery_id)`;

/**
 * Inserts a delivery for each match, unless the delivery already exists.
 *
 * @param now milliseconds since 1970
 * @returns the inserted deliveries by id
 */
export async function insertDeliveries(
  client: pg.ClientBase,
  matches: readonly EndpointMatch[],
  now: number,
): Promise<Map<string, InsertedDelivery>> {
  const values = [
    matches.map(deriveDeliveryId),
    matches.map(({ endpointId }) => endpointId),
    matches.map(({ applicationId }) => applicationId),
    matches.map(({ clinicId }) => clinicId),
    matches.map(({ event }) => event.body.branchId),
    matches.map(({ event }) => event.body.environment),
    matches.map(({ event }) => event.body.id),
    matches.map(({ event }) => event.body.type),
    matches.map(({ event }) => event.stream),
    matches.map(({ event }) => event.revision),
    // The bodies are sent as one text, one body per line, so that array elements need no escaping. `JSON.stringify`
    // writes no line breaks.
    matches.map(({ event }) => JSON.stringify(event.body)).join("\n"),
    matches.map(({ status }) => status),
    matches.map(({ event }) => event.body.id),
    matches.map(({ event }) => event.correlationId),
    toInstant(now),
    matches.map(({ event }) => event.traceparent),
    matches.map(({ orderingKey }) => orderingKey),
    listFollowers(matches),
    matches.map(({ event }) => findAnimalId(event.body)),
  ];
  const { rows } = await client.query<InsertedDelivery>({ name: "insert deliveries", text: INSERT_SQL, values });
  return new Map(rows.map((row) => [row.deliveryId, row]));
}

function listFollowers(matches: readonly EndpointMatch[]): boolean[] {
  const firstRevisions = new Map<string, bigint>();
  const getGroupName = ({ endpointId, orderingKey }: EndpointMatch) => `${endpointId} ${orderingKey}`;
  for (const match of matches) {
    const firstRevision = firstRevisions.get(getGroupName(match)) ?? match.event.revision;
    if (match.event.revision <= firstRevision) firstRevisions.set(getGroupName(match), match.event.revision);
  }
  return matches.map((match) => match.event.revision > (firstRevisions.get(getGroupName(match)) ?? 0n));
}

export function deriveDeliveryId({ event, endpointId }: EndpointMatch): string {
  return deriveWebhookDeliveryId(event.body.id, endpointId);
}
