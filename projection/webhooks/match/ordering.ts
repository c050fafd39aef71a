import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { concernsOneStream } from "../../../shared/eventstore/stream-failure.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { readRelayCheckpoint } from "../../checkpoints/relay-checkpoint.ts";
import { EventHistories, RelayError } from "../../relay/event-histories.ts";
import { type EventMessage, relayMessageSchema } from "../../relay/message.ts";
import { toMessage } from "../../relay/to-message.ts";
import { inTransaction } from "../record/outbox.ts";
import type { DueEndpoint } from "../schedule/due.ts";

/** Deliveries of one endpoint whose events are sent in order. */
export interface OrderedGroup {
  endpointId: string;
  orderingKey: string;
}

/** A delivery that may belong to an {@link OrderedGroup}. */
export interface OrderableDelivery {
  endpointId: string;
  /** Null if the order of the delivery does not matter. */
  orderingKey: string | null;
}

const GROUPS_SQL = `
  (SELECT DISTINCT endpoint_id, ordering_key FROM unnest($1::uuid[], $2::uuid[]) AS u (endpoint_id, ordering_key)) g`;

const RELEASE_NEXT_SQL = `
  WITH released AS (
    UPDATE webhooks.pending_delivery
       SET is_held = false, next_attempt_at = GREATEST(next_attempt_at, $3)
     WHERE delivery_id = ANY (ARRAY(
       SELECT earliest.delivery_id
         FROM ${GROUPS_SQL}
        CROSS JOIN LATERAL (
          SELECT delivery_id FROM webhooks.pending_delivery
           WHERE endpoint_id = g.endpoint_id AND ordering_key = g.ordering_key AND is_held
           ORDER BY event_revision LIMIT 1) earliest
        WHERE NOT EXISTS (SELECT FROM webhooks.pending_delivery r
                           WHERE r.endpoint_id = g.endpoint_id AND r.ordering_key = g.ordering_key AND NOT r.is_held)))
    RETURNING delivery_id, round_attempt_count
  )
  SELECT CASE r.round_attempt_count WHEN 0 THEN 'first' ELSE 'retry' END AS lane, d.environment,
         d.application_id AS "applicationId", d.endpoint_id AS "endpointId"
    FROM released r JOIN webhooks.delivery d USING (delivery_id)`;

const HOLD_LATER_SQL = `
  UPDATE webhooks.pending_delivery later
     SET is_held = true
    FROM ${GROUPS_SQL}
   WHERE later.endpoint_id = g.endpoint_id AND later.ordering_key = g.ordering_key AND NOT later.is_held
     AND EXISTS (SELECT FROM webhooks.pending_delivery earlier
                  WHERE earlier.endpoint_id = g.endpoint_id AND earlier.ordering_key = g.ordering_key
                    AND earlier.is_held AND earlier.event_revision < later.event_revision)`;

export function listGroups(deliveries: readonly OrderableDelivery[]): OrderedGroup[] {
  return deliveries.flatMap(({ endpointId, orderingKey }) =>
    orderingKey === null ? [] : [{ endpointId, orderingKey }],
  );
}

/**
 * Releases the earliest held delivery of each group, after other deliveries of the group have ended. A group with a
 * delivery that is not held stays unchanged. The transaction must hold the lock of {@link lockOrder}.
 *
 * @param earliestDueAt earliest due time of the released deliveries. Milliseconds since 1970
 * @returns endpoints of the released deliveries
 */
export async function releaseNext(
  client: pg.ClientBase,
  groups: readonly OrderedGroup[],
  earliestDueAt: number,
): Promise<DueEndpoint[]> {
  if (groups.length === 0) return [];
  const { rows } = await client.query<DueEndpoint>({
    name: "release deliveries",
    text: RELEASE_NEXT_SQL,
    values: [...toGroupColumns(groups), toInstant(earliestDueAt)],
  });
  return rows;
}

/**
 * Arranges groups to which held deliveries were added. In each group, holds a delivery that is later than an added one,
 * and releases the earliest delivery. An attempt that is in progress continues. The transaction must hold the lock of
 * {@link lockOrder}.
 *
 * @param now milliseconds since 1970
 * @returns endpoints of the released deliveries
 */
export async function arrange(
  client: pg.ClientBase,
  groups: readonly OrderedGroup[],
  now: number,
): Promise<DueEndpoint[]> {
  if (groups.length === 0) return [];
  await client.query({ name: "hold deliveries", text: HOLD_LATER_SQL, values: toGroupColumns(groups) });
  return releaseNext(client, groups, now);
}

const MAX_REPAIRED_GROUPS = 1_000;

/**
 * Releases a batch of held deliveries that no other delivery precedes. Such deliveries exist only if `rebuild
 * --adopt-log` has ended the delivery before them.
 * @param now milliseconds since 1970
 * @returns true if more deliveries may need to be released
 */
export function releaseForgottenDeliveries(pool: pg.Pool, now: number): Promise<boolean> {
  return inTransaction(pool, async (client) => {
    const { rows } = await client.query<OrderedGroup>({
      name: "find forgotten deliveries",
      text: `SELECT DISTINCT h.endpoint_id AS "endpointId", h.ordering_key AS "orderingKey"
               FROM webhooks.pending_delivery h
              WHERE h.is_held
                AND NOT EXISTS (SELECT FROM webhooks.pending_delivery r
                                 WHERE r.endpoint_id = h.endpoint_id AND r.ordering_key = h.ordering_key AND NOT r.is_held)
              LIMIT ${MAX_REPAIRED_GROUPS}`,
    });
    await lockOrder(client, rows);
    await releaseNext(client, rows, now);
    return rows.length === MAX_REPAIRED_GROUPS;
  });
}

function toGroupColumns(groups: readonly OrderedGroup[]): [string[], string[]] {
  return [groups.map(({ endpointId }) => endpointId), groups.map(({ orderingKey }) => orderingKey)];
}

/**
 * Number of advisory locks that all endpoints share. The number is limited, so that a transaction about many endpoints
 * needs few entries in the lock table of Postgres.
 */
const LOCK_COUNT = 64;

const buildLockKeySql = (endpointIdSql: string) =>
  `hashtextextended('delivery order ' || get_byte(uuid_send(${endpointIdSql}), 15) % ${LOCK_COUNT}, 0)`;

/**
 * SQL condition that is true if the row `pending_delivery` has no ordering key, or if the transaction now holds the
 * lock of the row's endpoint. Never waits, so a statement that also locks rows cannot cause a deadlock.
 */
export const TRY_LOCK_ORDER_SQL = `
  (ordering_key IS NULL OR pg_try_advisory_xact_lock(${buildLockKeySql("pending_delivery.endpoint_id")}))`;

/**
 * Locks the order of deliveries to endpoints until the transaction ends. Every transaction that adds or ends deliveries
 * with an ordering key first takes this lock. Otherwise a transaction could add a held delivery while another
 * transaction ends the delivery before it, and no transaction would release the added delivery.
 *
 * Transactions that only update several such deliveries take the lock too. Otherwise they could lock the rows in
 * another order than a transaction that holds the deliveries, which causes a deadlock. A claim needs no lock, because
 * it never waits for a row.
 *
 * The transaction must not have locked any rows. The locks are taken in the same order by all transactions.
 */
export async function lockOrder(client: pg.ClientBase, deliveries: readonly { endpointId: string }[]): Promise<void> {
  const distinctIds = [...new Set(deliveries.map(({ endpointId }) => endpointId))];
  if (distinctIds.length === 0) return;
  await client.query({
    name: "lock order",
    text: `SELECT pg_advisory_xact_lock(key)
             FROM (SELECT DISTINCT ${buildLockKeySql("e.id")} AS key FROM unnest($1::uuid[]) AS e (id) ORDER BY key) locks`,
    values: [distinctIds],
  });
}

interface MatchedEvents {
  /** All events up to this position are matched. */
  checkpoint: bigint;
  /** Ids of existing deliveries of the events of the batch, and of the event before each. */
  deliveryIds: ReadonlySet<string>;
}

/** An event and an endpoint that gets the events of each appointment in order. */
interface OrderedMatch {
  event: EventMessage;
  endpointId: string;
}

/**
 * Creates a function that returns true if all earlier events of the same appointment are matched with the endpoint, or
 * are part of the same batch. Otherwise a later event could be sent first, because messages can arrive in any order.
 *
 * A delivery of the event, or of the event before it, proves that all earlier events are matched too: the delivery was
 * added after the same check.
 *
 * @param batch all events of the batch
 */
export function createInOrderFilter(
  batch: readonly EventMessage[],
  { checkpoint, deliveryIds }: MatchedEvents,
): (match: OrderedMatch) => boolean {
  const eventsById = new Map(batch.map((event) => [event.body.id, event]));
  const hasDelivery = (eventId: string, endpointId: string) =>
    deliveryIds.has(deriveWebhookDeliveryId(eventId, endpointId));
  return ({ event, endpointId }) => {
    if (hasDelivery(event.body.id, endpointId)) return true;
    for (let current: EventMessage | undefined = event; current; ) {
      const { previousEvent }: EventMessage = current;
      if (previousEvent === null || previousEvent.position <= checkpoint) return true;
      if (hasDelivery(previousEvent.id, endpointId)) return true;
      current = eventsById.get(previousEvent.id);
    }
    return false;
  };
}

export async function readMatchedEvents(pool: pg.Pool, matches: readonly OrderedMatch[]): Promise<MatchedEvents> {
  const deliveryIds = matches.flatMap(({ event: { body, previousEvent }, endpointId }) =>
    [body, ...(previousEvent ? [previousEvent] : [])].map(({ id }) => deriveWebhookDeliveryId(id, endpointId)),
  );
  const { rows } = await pool.query<{ checkpoint: bigint; deliveryIds: string[] }>({
    name: "earlier events",
    text: `SELECT COALESCE((SELECT position FROM webhooks.relay_checkpoint), -1) AS checkpoint,
                  ARRAY(SELECT delivery_id::text FROM webhooks.delivery WHERE delivery_id = ANY ($1::uuid[])) AS "deliveryIds"`,
    values: [deliveryIds],
  });
  const [row] = rows;
  if (!row) throw new Error("The query for earlier events returned no row.");
  return { checkpoint: row.checkpoint, deliveryIds: new Set(row.deliveryIds) };
}

export interface OrderDeps {
  client: EventStoreDBClient;
  pool: pg.Pool;
  log: EventLog;
  logger: Logger;
}

interface EarlierEvents {
  events: EventMessage[];
  /** Streams that may be readable later. */
  unavailableStreams: ReadonlySet<string>;
}

/**
 * Reads the public events that come before events in their streams and that the relay's checkpoint has not passed. If
 * the events of a stream cannot be read, logs a warning and leaves them out.
 */
export async function readEarlierEvents(
  { client, pool, log, logger }: OrderDeps,
  events: readonly EventMessage[],
): Promise<EarlierEvents> {
  const unavailableStreams = new Set<string>();
  const { position: checkpoint } = await readRelayCheckpoint(pool);
  // A server that is behind does not know the earlier events yet. It may catch up during the reads.
  const logEnd = await readLogEnd(client).catch((error: unknown) => {
    logger.debug({ error }, "Cannot check whether the event log contains the events before an event.");
    return -1n;
  });
  const revisions = new Map<string, bigint>();
  for (const { stream, revision, position } of events) {
    if (position > logEnd) unavailableStreams.add(stream);
    if (revision > (revisions.get(stream) ?? -1n)) revisions.set(stream, revision);
  }
  const readBefore = async ([stream, revision]: [string, bigint]) => {
    try {
      return await readStreamBefore(log, { stream, revision }, checkpoint);
    } catch (error) {
      logger.warn({ error, stream, revision: String(revision) }, "The events before an event cannot be read.");
      if (!(error instanceof RelayError) && !(await concernsOneStream(log, error))) unavailableStreams.add(stream);
      return [];
    }
  };
  return { events: (await Promise.all(Array.from(revisions, readBefore))).flat(), unavailableStreams };
}

/**
 * Finds streams whose earlier events are lost, because the stream was deleted or truncated. The events that are left
 * need not wait.
 *
 * @param events events whose earlier events are neither matched nor readable
 * @param unavailableStreams streams that may be readable later
 */
export function findLostStreams(
  { logger }: OrderDeps,
  events: readonly EventMessage[],
  unavailableStreams: ReadonlySet<string>,
): Set<string> {
  const lostStreams = new Set(events.map(({ stream }) => stream).filter((stream) => !unavailableStreams.has(stream)));
  for (const stream of lostStreams)
    logger.error(
      { stream },
      "The events before an event are lost, so partners may get the events of the appointment out of order.",
    );
  return lostStreams;
}

async function readStreamBefore(
  log: EventLog,
  { stream, revision }: { stream: string; revision: bigint },
  checkpoint: bigint,
): Promise<EventMessage[]> {
  const history = await log.read(stream, revision - 1n);
  const unacknowledgedEvents = history.filter(({ position }) => position > checkpoint);
  const histories = new EventHistories(log);
  const outgoingMessages = await Promise.all(unacknowledgedEvents.map((event) => toMessage(histories, event)));
  return outgoingMessages.flatMap((outgoingMessage) => {
    const message = outgoingMessage && relayMessageSchema.parse(outgoingMessage.message);
    return message?.kind === "event" ? [message] : [];
  });
}
