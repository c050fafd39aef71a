import type pg from "pg";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { EventMessage } from "../../relay/message.ts";
import { arrange, listGroups } from "../ordering/arrange.ts";
import { createOrderCheck, readMatchedEvents } from "../ordering/earlier-events.ts";
import { lockOrder } from "../ordering/lock.ts";
import { addFacts, createSkippedFact, type DeliveryRound } from "../outbox/facts.ts";
import { inTransaction } from "../outbox/transaction.ts";
import type { DueEndpoint } from "../scheduling/due-endpoints.ts";
import { deriveDeliveryId, type EndpointMatch, insertDeliveries } from "./insert-deliveries.ts";

/** Result of adding deliveries. */
export interface AddedDeliveries {
  /** Active endpoints with new deliveries that are due. */
  dueEndpoints: DueEndpoint[];
  /** Number of events that were added to the outbox. */
  factCount: number;
  /**
   * Events that must be processed again later, because an earlier event of the appointment is not matched yet. Their
   * deliveries to endpoints that do not need the order are added.
   */
  deferredEvents: ReadonlySet<EventMessage>;
}

/**
 * Adds a delivery for each event and matching endpoint, unless the delivery already exists. The read models must
 * already include all events.
 *
 * @param now milliseconds since 1970
 */
export async function addDeliveries(
  pool: pg.Pool,
  events: readonly EventMessage[],
  now: number,
): Promise<AddedDeliveries> {
  // The relay may publish an event again, so a batch can contain two messages for one event.
  const distinctEvents = [...new Map(events.map((event) => [event.body.id, event])).values()];
  const allMatches = await matchEndpoints(pool, distinctEvents);
  const deferredMatches = await findDeferredMatches(pool, allMatches, distinctEvents);
  const deferredIds = new Set(Array.from(deferredMatches, ({ event }) => event.body.id));
  const deferredEvents = new Set(events.filter(({ body }) => deferredIds.has(body.id)));
  const matches = allMatches.filter((match) => !deferredMatches.has(match));
  if (matches.length === 0) return { dueEndpoints: [], factCount: 0, deferredEvents };
  return inTransaction(pool, async (client) => {
    await lockOrder(client, listGroups(matches));
    const addedRows = await insertDeliveries(client, matches, now);
    const addedMatches = matches.filter((match) => addedRows.has(deriveDeliveryId(match)));
    const isHeld = (match: EndpointMatch) => addedRows.get(deriveDeliveryId(match))?.isHeld === true;
    const releasedEndpoints = await arrange(client, listGroups(addedMatches.filter(isHeld)), now);
    const skippedMatches = addedMatches.filter(({ status }) => status === "skipped");
    const facts = skippedMatches.map((match) => createSkippedFact(toDeliveryRound(match), now));
    await addFacts(client, facts);
    const dueMatches = addedMatches.filter((match) => match.status === "pending" && !isHeld(match));
    return {
      dueEndpoints: [...dueMatches.map(toDueEndpoint), ...releasedEndpoints],
      factCount: facts.length,
      deferredEvents,
    };
  });
}

/** Finds the matches that must wait until an earlier event of the same appointment is matched. */
async function findDeferredMatches(
  pool: pg.Pool,
  matches: readonly EndpointMatch[],
  batch: readonly EventMessage[],
): Promise<Set<EndpointMatch>> {
  const laterMatches = matches.filter(({ event, orderingKey }) => orderingKey !== null && event.previousEvent !== null);
  if (laterMatches.length === 0) return new Set();
  const isInOrder = createOrderCheck(batch, await readMatchedEvents(pool, laterMatches));
  return new Set(laterMatches.filter((match) => !isInOrder(match)));
}

function toDueEndpoint({ event, applicationId, endpointId }: EndpointMatch): DueEndpoint {
  return { lane: "first", environment: event.body.environment, applicationId, endpointId };
}

/**
 * Finds the endpoints for each event. An endpoint matches if it belongs to the event's clinic and environment,
 * subscribed to the event's type, and was registered before the event. The endpoint's application must have access to
 * the event's branch, and the endpoint must not be limited to other branches. A test event matches only the endpoint
 * under test, which need not subscribe to its type. An operational event matches only endpoints of the application
 * whose endpoint it is about. Revoked endpoints never match.
 */
async function matchEndpoints(pool: pg.Pool, events: readonly EventMessage[]): Promise<EndpointMatch[]> {
  const { rows } = await pool.query<
    Omit<EndpointMatch, "event" | "orderingKey"> & { ordinal: number; isOrdered: boolean }
  >({
    name: "match endpoints",
    text: `SELECT v.ordinal::integer AS ordinal, e.endpoint_id AS "endpointId", e.application_id AS "applicationId",
                  CASE e.status WHEN 'active' THEN 'pending' ELSE 'skipped' END AS status,
                  e.ordering = 'appointment' AS "isOrdered"
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
  return rows.flatMap(({ ordinal, isOrdered, ...endpoint }) => {
    const event = events[ordinal - 1];
    return event ? [{ event, ...endpoint, orderingKey: isOrdered ? findAppointmentId(event) : null }] : [];
  });
}

/** Returns the id of the appointment that an event is about. Null if the event is not about an appointment. */
function findAppointmentId({ body: { data } }: EventMessage): string | null {
  return "appointment" in data ? data.appointment.id : null;
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
