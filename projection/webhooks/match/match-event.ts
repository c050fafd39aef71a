import type pg from "pg";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { awaitPipelined } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { EventMessage } from "../../relay/message.ts";
import { addToOutbox, createDeliverySkippedEvent, type DeliveryRound, inTransaction } from "../record/outbox.ts";
import type { DueEndpoint } from "../schedule/due.ts";
import { arrange, createInOrderFilter, listGroups, lockOrder, readMatchedEvents } from "./ordering.ts";

export interface AddedDeliveries {
  dueEndpoints: DueEndpoint[];
  outboxEventCount: number;
  /**
   * Events that must be processed again later, because an earlier event of the appointment is not matched yet. Their
   * deliveries to endpoints that do not need the order are added.
   */
  deferredEvents: ReadonlySet<EventMessage>;
  /** Events that the read models do not include yet. They are not processed. */
  earlyEvents: ReadonlySet<EventMessage>;
}

/** Deliveries that are claimed in a transaction that has not ended yet. */
export interface InsertedClaim {
  /** Call this after the commit. */
  startAttempts(): void;
  /** Call this when the transaction has ended in any way. Until then, no other deliveries are claimed. */
  end(): void;
}

export interface MatchDeps {
  pool: pg.Pool;
  /** Claims deliveries in the transaction that has inserted them. */
  claimInserted?(client: pg.ClientBase, endpoints: readonly DueEndpoint[]): Promise<InsertedClaim | undefined>;
}

/**
 * Adds a delivery for each event and matching endpoint, unless the delivery already exists.
 *
 * @param now milliseconds since 1970
 */
export async function addDeliveries(
  { pool, claimInserted }: MatchDeps,
  events: readonly EventMessage[],
  now: number,
): Promise<AddedDeliveries> {
  // The relay may publish an event again, so a batch can contain two messages for one event.
  const distinctEvents = [...new Map(events.map((event) => [event.body.id, event])).values()];
  const { matches: allMatches, position } = await matchEndpoints(pool, distinctEvents);
  const earlyEvents = new Set(events.filter((event) => event.position > position));
  const deferredMatches = await findDeferredMatches(pool, allMatches, distinctEvents);
  const deferredIds = new Set(Array.from(deferredMatches, ({ event }) => event.body.id));
  const deferredEvents = new Set(events.filter(({ body }) => deferredIds.has(body.id)));
  const matches = allMatches.filter((match) => !deferredMatches.has(match));
  if (matches.length === 0) return { dueEndpoints: [], outboxEventCount: 0, deferredEvents, earlyEvents };
  let claim: InsertedClaim | undefined;
  const insert = async (client: pg.ClientBase) => {
    await lockOrder(client, listGroups(matches));
    // Deliveries without order are due as soon as they exist, so their claim is sent together with the insertion.
    const isOrdered = matches.some(({ orderingKey }) => orderingKey !== null);
    const pendingEndpoints = matches.filter(({ status }) => status === "pending").map(toDueEndpoint);
    const [addedRows, insertedClaim] = await awaitPipelined([
      insertDeliveries(client, matches, now),
      isOrdered || pendingEndpoints.length === 0 ? undefined : claimInserted?.(client, pendingEndpoints),
    ]);
    claim = insertedClaim;
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
      deferredEvents,
      earlyEvents,
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

async function findDeferredMatches(
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
 * Finds the endpoints for each event. An endpoint matches if it belongs to the event's clinic and environment,
 * subscribed to the event's type, and was registered before the event. The endpoint's application must have access to
 * the event's branch, and the endpoint must not be limited to other branches. A test event matches only the endpoint
 * under test, which need not subscribe to its type. An operational event matches only endpoints of the application
 * whose endpoint it is about. Revoked endpoints never match.
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
             JOIN ${READ_MODEL_SCHEMA}.partner_application a ON a.application_id = e.application_id AND NOT a.revoked
            WHERE v.position <= c.position) matched ON true`,
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
  const matches = rows.flatMap(({ readPosition: _, ordinal, isOrdered, ...endpoint }) => {
    const event = ordinal === null ? undefined : events[ordinal - 1];
    return event ? [{ event, ...endpoint, orderingKey: isOrdered ? findAppointmentId(event) : null }] : [];
  });
  if (!rows[0]) throw new Error("The read models have no log position.");
  return { matches, position: rows[0].readPosition };
}

function findAppointmentId({ body: { data } }: EventMessage): string | null {
  return "appointment" in data ? data.appointment.id : null;
}

function toDeliveryRound(match: EndpointMatch): DeliveryRound {
  const { clinicId, environment, id: causeId } = match.event.body;
  const { correlationId, stream: eventStream, revision: eventRevision, traceparent } = match.event;
  const deliveryId = deriveDeliveryId(match);
  return {
    deliveryId,
    endpointId: match.endpointId,
    clinicId,
    environment,
    causeId,
    correlationId,
    eventStream,
    eventRevision,
    traceparent,
  };
}

interface EndpointMatch {
  event: EventMessage;
  endpointId: string;
  applicationId: string;
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

/** Values of the ordering columns of an inserted delivery. A delivery is held if its group has a pending delivery. */
const ORDERING_VALUES_SQL = `
  , ordering_key, CASE WHEN ordering_key IS NOT NULL THEN event_revision END,
  ordering_key IS NOT NULL
    AND (is_follower OR ${buildExistsSql("NOT p.is_held")} OR ${buildExistsSql("p.is_held")})`;

/** Returns SQL that inserts deliveries, and a row in `pending_delivery` for each that is pending. */
const buildInsertSql = (hasOrder: boolean) => `
  WITH matched AS MATERIALIZED (
    SELECT delivery_id, endpoint_id, application_id, clinic_id, branch_id, environment, event_id, event_type,
           event_stream, event_revision, body, status, cause_id, correlation_id, traceparent
           ${hasOrder ? ", ordering_key, is_follower" : ""}
      FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::uuid[], $8::text[],
                  $9::text[], $10::bigint[], string_to_array($11, E'\\n'), $12::text[], $13::uuid[], $14::uuid[],
                  $16::text[] ${hasOrder ? ", $17::uuid[], $18::boolean[]" : ""})
        AS u (delivery_id, endpoint_id, application_id, clinic_id, branch_id, environment, event_id, event_type,
              event_stream, event_revision, body, status, cause_id, correlation_id, traceparent
              ${hasOrder ? ", ordering_key, is_follower" : ""})
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
      round_attempt_count, attempt_count, traceparent ${hasOrder ? ", ordering_key, event_revision, is_held" : ""})
    SELECT delivery_id, endpoint_id, branch_id, body, $15, 0, 0, traceparent ${hasOrder ? ORDERING_VALUES_SQL : ""}
      FROM matched JOIN added USING (delivery_id)
     WHERE status = 'pending'
    ${hasOrder ? "RETURNING delivery_id, is_held" : ""}
  )
  ${
    hasOrder
      ? `SELECT delivery_id AS "deliveryId", COALESCE(queued.is_held, false) AS "isHeld"
           FROM added LEFT JOIN queued USING (delivery_id)`
      : `SELECT delivery_id AS "deliveryId", false AS "isHeld" FROM added`
  }`;

/** Inserts deliveries whose order does not matter. Most batches use this statement, because it is cheaper. */
const INSERT_SQL = buildInsertSql(false);
const INSERT_WITH_ORDER_SQL = buildInsertSql(true);

/**
 * Inserts a delivery for each match, unless the delivery already exists.
 *
 * @param now milliseconds since 1970
 * @returns the inserted deliveries by id
 */
async function insertDeliveries(
  client: pg.ClientBase,
  matches: readonly EndpointMatch[],
  now: number,
): Promise<Map<string, InsertedDelivery>> {
  const values = [
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
  ];
  const orderingKeys = matches.map(({ orderingKey }) => orderingKey);
  const { rows } = await client.query<InsertedDelivery>(
    orderingKeys.some((orderingKey) => orderingKey !== null)
      ? {
          name: "insert deliveries in order",
          text: INSERT_WITH_ORDER_SQL,
          values: [...values, orderingKeys, listFollowers(matches)],
        }
      : { name: "insert deliveries", text: INSERT_SQL, values },
  );
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

function deriveDeliveryId({ event, endpointId }: EndpointMatch): string {
  return deriveWebhookDeliveryId(event.body.id, endpointId);
}
