import type pg from "pg";
import { applicationEventType } from "../../../shared/domain/events/partner.ts";
import { buildIsDeliveryVisibleSql } from "../../../shared/partner-api/animal-access.ts";
import { findAnimalId } from "../../../shared/partner-api/feed-event.ts";
import { awaitPipelined } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { EventMessage } from "../../relay/message.ts";
import { addToOutbox, createDeliverySkippedEvent, type DeliveryRound, inTransaction } from "../record/outbox.ts";
import type { DueEndpoint } from "../schedule/due.ts";
import { deriveDeliveryId, type EndpointMatch, insertDeliveries } from "./insert-deliveries.ts";
import {
  arrange,
  createInOrderFilter,
  findLostStreams,
  listGroups,
  lockOrder,
  type OrderDeps,
  readEarlierEvents,
  readMatchedEvents,
} from "./ordering.ts";

export interface AddedDeliveries {
  dueEndpoints: DueEndpoint[];
  outboxEventCount: number;
  /**
   * Events that must be processed again later, because the read models do not include them yet, or an earlier event of
   * the appointment cannot be read. Their deliveries to endpoints that do not need the order are added.
   */
  unreadyEvents: ReadonlySet<EventMessage>;
}

/** Deliveries that are claimed in a transaction that has not ended yet. */
export interface InsertedClaim {
  /** Call this after the commit. */
  startAttempts(): void;
  /** Call this when the transaction has ended in any way. Until then, no other deliveries are claimed. */
  end(): void;
}

export interface MatchDeps extends OrderDeps {
  /** Claims deliveries in the transaction that has inserted them. */
  claimInserted?(client: pg.ClientBase, endpoints: readonly DueEndpoint[]): Promise<InsertedClaim | undefined>;
}

/**
 * Adds a delivery for each event and matching endpoint, unless the delivery already exists.
 *
 * @param now milliseconds since 1970
 */
export async function addDeliveries(
  deps: MatchDeps,
  events: readonly EventMessage[],
  now: number,
): Promise<AddedDeliveries> {
  const { pool, claimInserted } = deps;
  const { matches, position, outOfOrderIds } = await matchInOrder(deps, events);
  const isUnready = (event: EventMessage) => event.position > position || outOfOrderIds.has(event.body.id);
  const unreadyEvents = new Set(events.filter(isUnready));
  if (matches.length === 0) return { dueEndpoints: [], outboxEventCount: 0, unreadyEvents };
  let claim: InsertedClaim | undefined;
  const insert = async (client: pg.ClientBase) => {
    await lockOrder(client, listGroups(matches));
    // Deliveries without order are due as soon as they exist, so their claim is sent together with the insertion.
    const isOrdered = matches.some(({ orderingKey }) => orderingKey !== null);
    const pendingEndpoints = matches.filter(({ status }) => status === "pending").map(toDueEndpoint);
    const claimPending = async () => {
      if (!isOrdered && pendingEndpoints.length > 0) claim = await claimInserted?.(client, pendingEndpoints);
    };
    const [addedRows] = await awaitPipelined([insertDeliveries(client, matches, now), claimPending()]);
    const addedMatches = matches.filter((match) => addedRows.has(deriveDeliveryId(match)));
    const isHeld = (match: EndpointMatch) => addedRows.get(deriveDeliveryId(match))?.isHeld === true;
    const releasedEndpoints = await arrange(client, listGroups(addedMatches.filter(isHeld)), now);
    const skippedMatches = addedMatches.filter(({ status }) => status === "skipped");
    const outboxEvents = skippedMatches.map((match) => createDeliverySkippedEvent(toDeliveryRound(match), now));
    await addToOutbox(client, outboxEvents);
    const dueMatches = addedMatches.filter((match) => match.status === "pending" && !isHeld(match));
    const dueEndpoints = [...dueMatches.map(toDueEndpoint), ...releasedEndpoints];
    return {
      dueEndpoints: claim ? [] : dueEndpoints,
      outboxEventCount: outboxEvents.length,
      unreadyEvents,
    };
  };
  try {
    const addedDeliveries = await inTransaction(pool, insert);
    claim?.startAttempts();
    return addedDeliveries;
  } finally {
    claim?.end();
  }
}

interface MatchedEvents {
  matches: EndpointMatch[];
  /** Log position of the read models. Later events are not matched. */
  position: bigint;
  /** Ids of events with a match that is left out, because an earlier event of the appointment is not matched. */
  outOfOrderIds: ReadonlySet<string>;
}

/**
 * Matches events like {@link matchEndpoints}, and keeps the order of each appointment's events. If an earlier event is
 * not matched, reads it from the log instead of waiting for its message. Both events may wait for the same message: if
 * the relay publishes an acknowledged event again, its checkpoint waits for all older messages.
 */
async function matchInOrder(deps: MatchDeps, events: readonly EventMessage[]): Promise<MatchedEvents> {
  const matchedEvents = await matchOnce(deps.pool, events);
  const { outOfOrderIds } = matchedEvents;
  if (outOfOrderIds.size === 0) return matchedEvents;
  const waitingEvents = events.filter(({ body }) => outOfOrderIds.has(body.id));
  const { events: earlierEvents, unavailableStreams } = await readEarlierEvents(deps, waitingEvents);
  const allEvents = [...earlierEvents, ...events];
  const completeMatches = await matchOnce(deps.pool, allEvents);
  const stillWaitingEvents = allEvents.filter(({ body }) => completeMatches.outOfOrderIds.has(body.id));
  if (stillWaitingEvents.length === 0) return completeMatches;
  return matchOnce(deps.pool, allEvents, findLostStreams(deps, stillWaitingEvents, unavailableStreams));
}

/** @param lostStreams streams whose events do not wait for earlier events */
async function matchOnce(
  pool: pg.Pool,
  events: readonly EventMessage[],
  lostStreams: ReadonlySet<string> = new Set(),
): Promise<MatchedEvents> {
  // The relay may publish an event again, so a batch can contain two messages for one event.
  const distinctEvents = [...new Map(events.map((event) => [event.body.id, event])).values()];
  const { matches, position } = await matchEndpoints(pool, distinctEvents);
  const outOfOrder = await findOutOfOrder(
    pool,
    matches.filter(({ event }) => !lostStreams.has(event.stream)),
    distinctEvents,
  );
  return {
    matches: matches.filter((match) => !outOfOrder.has(match)),
    position,
    outOfOrderIds: new Set(Array.from(outOfOrder, ({ event }) => event.body.id)),
  };
}

async function findOutOfOrder(
  pool: pg.Pool,
  matches: readonly EndpointMatch[],
  batch: readonly EventMessage[],
): Promise<Set<EndpointMatch>> {
  const laterMatches = matches.filter(({ event, orderingKey }) => orderingKey !== null && event.previousEvent !== null);
  if (laterMatches.length === 0) return new Set();
  const isInOrder = createInOrderFilter(batch, await readMatchedEvents(pool, laterMatches));
  return new Set(laterMatches.filter((match) => !isInOrder(match)));
}

function toDueEndpoint({ event, applicationId, endpointId }: EndpointMatch): DueEndpoint {
  return { lane: "first", environment: event.body.environment, applicationId, endpointId };
}

/**
 * Finds the endpoints for each event. An endpoint matches if it belongs to the event's owner and environment,
 * subscribed to the event's type, and was registered before the event. If the owner is a clinic, the endpoint's
 * application must have access to the event's branch and animal, and the endpoint must not be limited to other branches.
 * An endpoint of an application needs no installation, because it receives only events about the application itself. A
 * test event matches only the endpoint under test, which need not subscribe to its type. An operational event matches
 * only endpoints of the application whose endpoint it is about. Revoked endpoints never match.
 *
 * The statement also reads the position of the read models, because they may be behind an earlier read after a failover.
 * Events after the position match no endpoint.
 */
async function matchEndpoints(
  pool: pg.Pool,
  events: readonly EventMessage[],
): Promise<{ matches: EndpointMatch[]; position: bigint }> {
  const { rows } = await pool.query<
    Omit<EndpointMatch, "event" | "orderingKey"> & { readPosition: bigint; ordinal: number | null; isOrdered: boolean }
  >({
    name: "match endpoints",
    text: `SELECT c.position AS "readPosition", matched.*
             FROM ${READ_MODEL_SCHEMA}.checkpoint c
             LEFT JOIN LATERAL (
           SELECT v.ordinal::integer AS ordinal, e.endpoint_id AS "endpointId", e.application_id AS "applicationId",
                  e.clinic_id AS "clinicId",
                  CASE e.status WHEN 'active' THEN 'pending' ELSE 'skipped' END AS status,
                  e.ordering = 'appointment' AS "isOrdered"
             FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::uuid[], $7::uuid[], $8::uuid[],
                         $9::uuid[])
                  WITH ORDINALITY AS v (owner_id, branch_id, environment, type, position, only_endpoint_id,
                    only_application_id, except_endpoint_id, animal_id, ordinal)
             JOIN ${READ_MODEL_SCHEMA}.webhook_endpoint e
               ON e.owner_id = v.owner_id AND e.environment = v.environment
              AND CASE WHEN v.only_endpoint_id IS NOT NULL THEN e.endpoint_id = v.only_endpoint_id
                       WHEN v.only_application_id IS NULL THEN e.events ? v.type
                       ELSE e.application_id = v.only_application_id AND (e.events || e.operational_events) ? v.type
                         AND e.endpoint_id IS DISTINCT FROM v.except_endpoint_id END
              AND e.registered_position < v.position AND e.status <> 'revoked'
              AND (e.branch_ids IS NULL OR v.branch_id IS NULL OR e.branch_ids ? v.branch_id::text)
             LEFT JOIN ${READ_MODEL_SCHEMA}.installation i
               ON i.application_id = e.application_id AND i.clinic_id = e.clinic_id AND i.status = 'approved'
              AND (i.branch_ids IS NULL OR v.branch_id IS NULL OR i.branch_ids ? v.branch_id::text)
              AND ${buildIsDeliveryVisibleSql("v", { animalAccess: "i.animal_access", applicationId: "e.application_id" })}
             JOIN ${READ_MODEL_SCHEMA}.partner_application a ON a.application_id = e.application_id AND NOT a.revoked
            WHERE v.position <= c.position AND (e.clinic_id IS NULL OR i.installation_id IS NOT NULL)) matched ON true`,
    values: [
      events.map(getOwnerId),
      events.map(({ body }) => body.branchId),
      events.map(({ body }) => body.environment),
      events.map(({ body }) => body.type),
      events.map(({ position }) => position),
      events.map(({ onlyEndpointId }) => onlyEndpointId),
      events.map(({ onlyApplicationId }) => onlyApplicationId),
      events.map(({ exceptEndpointId }) => exceptEndpointId),
      events.map(({ body }) => findAnimalId(body)),
    ],
  });
  const matches = rows.flatMap(({ readPosition: _, ordinal, isOrdered, ...endpoint }) => {
    const event = ordinal === null ? undefined : events[ordinal - 1];
    return event ? [{ event, ...endpoint, orderingKey: isOrdered ? findAppointmentId(event) : null }] : [];
  });
  if (!rows[0]) throw new Error("The read models have no log position.");
  return { matches, position: rows[0].readPosition };
}

/** Returns the clinic or application whose endpoints may receive an event. */
function getOwnerId({ body: { clinicId, type }, onlyApplicationId }: EventMessage): string | null {
  return applicationEventType.safeParse(type).success ? onlyApplicationId : (clinicId ?? onlyApplicationId);
}

function findAppointmentId({ body: { data } }: EventMessage): string | null {
  return "appointment" in data ? data.appointment.id : null;
}

function toDeliveryRound(match: EndpointMatch): DeliveryRound {
  const { environment, id: causeId } = match.event.body;
  const { correlationId, stream: eventStream, revision: eventRevision, traceparent } = match.event;
  const deliveryId = deriveDeliveryId(match);
  return {
    deliveryId,
    endpointId: match.endpointId,
    clinicId: match.clinicId,
    environment,
    causeId,
    correlationId,
    eventId: causeId,
    eventStream,
    eventRevision,
    traceparent,
  };
}
