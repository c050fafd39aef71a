import type pg from "pg";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { EventMessage } from "../../relay/message.ts";
import { addFacts, createSkippedFact, type DeliveryRound } from "../outbox/facts.ts";
import { inTransaction } from "../outbox/transaction.ts";
import type { DueEndpoint } from "../scheduling/due-endpoints.ts";

/** A public event and an endpoint that it matches. */
interface EndpointMatch {
  event: EventMessage;
  endpointId: string;
  applicationId: string;
  /** Status of the new delivery: `pending` if the endpoint is active, `skipped` if the endpoint is disabled. */
  status: "pending" | "skipped";
}

/**
 * Adds a delivery for each event and matching endpoint, unless the delivery already exists. The read models must
 * already include all events.
 *
 * @param now milliseconds since 1970
 * @returns active endpoints with new deliveries, and the number of events that were added to the outbox
 */
export async function addDeliveries(
  pool: pg.Pool,
  events: readonly EventMessage[],
  now: number,
): Promise<{ dueEndpoints: DueEndpoint[]; factCount: number }> {
  // The relay may publish an event again, so a batch can contain two messages for one event.
  const distinctEvents = [...new Map(events.map((event) => [event.body.id, event])).values()];
  const matches = await matchEndpoints(pool, distinctEvents);
  if (matches.length === 0) return { dueEndpoints: [], factCount: 0 };
  return inTransaction(pool, async (client) => {
    const addedDeliveryIds = await insertDeliveries(client, matches, now);
    const addedMatches = matches.filter((match) => addedDeliveryIds.has(deriveDeliveryId(match)));
    const skippedMatches = addedMatches.filter(({ status }) => status === "skipped");
    const facts = skippedMatches.map((match) => createSkippedFact(toDeliveryRound(match), now));
    await addFacts(client, facts);
    const dueEndpoints = addedMatches.filter(({ status }) => status === "pending").map(toDueEndpoint);
    return { dueEndpoints, factCount: facts.length };
  });
}

function toDueEndpoint({ event, applicationId, endpointId }: EndpointMatch): DueEndpoint {
  return { lane: "first", environment: event.body.environment, applicationId, endpointId };
}

/**
 * Finds the endpoints for each event. An endpoint matches if it belongs to the event's clinic and environment,
 * subscribed to the event's type, and was registered before the event. The endpoint's application must have access to
 * the event's branch, and the endpoint must not be limited to other branches. A test event matches only the endpoint
 * under test, which need not subscribe to its type. An operational event matches only endpoints of the application whose
 * endpoint it is about. Revoked endpoints never match.
 */
async function matchEndpoints(pool: pg.Pool, events: readonly EventMessage[]): Promise<EndpointMatch[]> {
  const { rows } = await pool.query<Omit<EndpointMatch, "event"> & { ordinal: number }>({
    name: "match endpoints",
    text: `SELECT v.ordinal::integer AS ordinal, e.endpoint_id AS "endpointId", e.application_id AS "applicationId",
                  CASE e.status WHEN 'active' THEN 'pending' ELSE 'skipped' END AS status
             FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::uuid[], $7::uuid[], $8::uuid[])
                  WITH ORDINALITY AS v (clinic_id, branch_id, environment, type, position, only_endpoint_id,
                    only_application_id, except_endpoint_id, ordinal)
             JOIN ${READ_MODEL_SCHEMA}.webhook_endpoint e
               ON e.clinic_id = v.clinic_id AND e.environment = v.environment
              AND CASE WHEN v.only_endpoint_id IS NOT NULL THEN e.endpoint_id = v.only_endpoint_id
                       WHEN v.only_application_id IS NULL THEN e.events ? v.type
                       ELSE e.application_id = v.only_application_id AND e.operational_events ? v.type
                         AND e.endpoint_id IS DISTINCT FROM v.except_endpoint_id END
              AND e.registered_position < v.position AND e.status <> 'revoked'
              AND (e.branch_ids IS NULL OR v.branch_id IS NULL OR e.branch_ids ? v.branch_id::text)
             JOIN ${READ_MODEL_SCHEMA}.installation i
               ON i.application_id = e.application_id AND i.clinic_id = e.clinic_id AND i.status = 'approved'
              AND (i.branch_ids IS NULL OR v.branch_id IS NULL OR i.branch_ids ? v.branch_id::text)
             JOIN ${READ_MODEL_SCHEMA}.partner_application a ON a.application_id = e.application_id AND NOT a.revoked`,
    values: [
      events.map(({ body }) => body.clinicId),
      events.map(({ body }) => body.branchId),
      events.map(({ body }) => body.environment),
      events.map(({ body }) => body.type),
      events.map(({ position }) => position),
      events.map(({ onlyEndpointId }) => onlyEndpointId),
      events.map(({ onlyApplicationId }) => onlyApplicationId),
      events.map(({ exceptEndpointId }) => exceptEndpointId),
    ],
  });
  return rows.flatMap(({ ordinal, ...endpoint }) => {
    const event = events[ordinal - 1];
    return event ? [{ event, ...endpoint }] : [];
  });
}

const INSERT_DELIVERIES_SQL = `
  WITH matched AS MATERIALIZED (
    SELECT delivery_id, endpoint_id, application_id, clinic_id, branch_id, environment, event_id, event_type,
           event_stream, event_revision, body, status, cause_id, correlation_id, traceparent
      FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::uuid[], $8::text[],
                  $9::text[], $10::bigint[], string_to_array($11, E'\\n'), $12::text[], $13::uuid[], $14::uuid[],
                  $16::text[])
        AS u (delivery_id, endpoint_id, application_id, clinic_id, branch_id, environment, event_id, event_type,
              event_stream, event_revision, body, status, cause_id, correlation_id, traceparent)
     ORDER BY delivery_id
  ),
  added AS (
    INSERT INTO webhooks.delivery (delivery_id, endpoint_id, application_id, clinic_id, branch_id, environment, event_id,
      event_type, event_stream, event_revision, status, cause_id, correlation_id, next_attempt_at, created_at, updated_at)
    SELECT delivery_id, endpoint_id, application_id, clinic_id, branch_id, environment, event_id, event_type,
           event_stream, event_revision, status, cause_id, correlation_id,
           CASE status WHEN 'pending' THEN $15::timestamptz END, $15, $15
      FROM matched
    ON CONFLICT DO NOTHING
    RETURNING delivery_id
  ),
  queued AS (
    INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, branch_id, body, next_attempt_at,
      round_attempt_count, attempt_count, traceparent)
    SELECT delivery_id, endpoint_id, branch_id, body, $15, 0, 0, traceparent
      FROM matched JOIN added USING (delivery_id)
     WHERE status = 'pending'
  )
  SELECT delivery_id FROM added`;

/** @returns ids of the inserted deliveries, without the deliveries that already existed */
async function insertDeliveries(
  client: pg.ClientBase,
  matches: readonly EndpointMatch[],
  now: number,
): Promise<Set<string>> {
  const { rows } = await client.query<{ delivery_id: string }>({
    name: "insert deliveries",
    text: INSERT_DELIVERIES_SQL,
    values: [
      matches.map(deriveDeliveryId),
      matches.map(({ endpointId }) => endpointId),
      matches.map(({ applicationId }) => applicationId),
      matches.map(({ event }) => event.body.clinicId),
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
    ],
  });
  return new Set(rows.map(({ delivery_id }) => delivery_id));
}

function deriveDeliveryId({ event, endpointId }: EndpointMatch): string {
  return deriveWebhookDeliveryId(event.body.id, endpointId);
}

function toDeliveryRound(match: EndpointMatch): DeliveryRound {
  const { clinicId, environment, id: causeId } = match.event.body;
  const { correlationId, stream: eventStream, revision: eventRevision, traceparent } = match.event;
  const deliveryId = deriveDeliveryId(match);
  return {
    ...{ deliveryId, endpointId: match.endpointId, clinicId, environment, causeId, correlationId },
    ...{ eventStream, eventRevision, traceparent },
  };
}
