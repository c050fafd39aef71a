import type pg from "pg";
import { deliveredEventTypes, type ReplayableStatus } from "../../../shared/domain/events/partner.ts";
import { type Instant, toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { IS_DELIVERY_VISIBLE_SQL } from "../../../shared/partner-api/animal-access.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { OrderableDelivery } from "../match/ordering.ts";
import { READ_MODELS_CURRENT_SQL } from "../match/revocations.ts";

export interface SelectedDelivery {
  deliveryId: string;
  /** Time of creation as Postgres text, with microseconds. */
  createdAt: string;
}

/** Maximum number of deliveries in a batch, and of delivery ids in a replay request. */
export const MAX_BATCH_SIZE = 100;

/**
 * Returns an SQL condition for a delivery `d` that a replay request may queue again. The delivery must have one of the
 * statuses and be visible to its application. It must not have processed this request or a later one.
 *
 * @param statuses SQL expression for the array of statuses
 * @param position SQL expression for the log position of the request
 */
export const buildReplayableSql = (statuses: string, position: string) =>
  `d.status = ANY (${statuses}::text[]) AND COALESCE(d.replay_position, -1) < ${position} AND ${IS_DELIVERY_VISIBLE_SQL}`;

const COLUMNS_SQL = 'd.delivery_id AS "deliveryId", d.created_at::text AS "createdAt"';

const SELECT_BY_ID_SQL = `
  SELECT ${COLUMNS_SQL} FROM webhooks.delivery d
   WHERE d.delivery_id = ANY ($1::uuid[]) AND d.endpoint_id = $2 AND ${buildReplayableSql("$3", "$4")}`;

/** Reads a batch of the oldest deliveries for each status and event type from an index, and merges them by time. */
const SELECT_BY_TIME_SQL = `
  SELECT found.* FROM unnest($5::text[]) AS s (unsuccessful_status) CROSS JOIN unnest($6::text[]) AS t (event_type)
   CROSS JOIN LATERAL (
     SELECT ${COLUMNS_SQL}, d.created_at FROM webhooks.delivery d
      WHERE d.endpoint_id = $2 AND d.unsuccessful_status = s.unsuccessful_status AND d.event_type = t.event_type
        AND (d.created_at AT TIME ZONE 'UTC') >= ($1::timestamptz AT TIME ZONE 'UTC')
        AND (d.created_at AT TIME ZONE 'UTC') < ($7::timestamptz AT TIME ZONE 'UTC')
        AND ${buildReplayableSql("$3", "$4")}
      ORDER BY d.created_at AT TIME ZONE 'UTC', d.delivery_id DESC
      LIMIT ${MAX_BATCH_SIZE}) found
   ORDER BY created_at
   LIMIT ${MAX_BATCH_SIZE}`;

/**
 * Selects the next deliveries of a replay, oldest first unless the request lists ids. Omits deliveries that the replay
 * has already processed.
 *
 * @param nextCreatedAt time of creation at which the batch starts; null for the first batch
 */
export async function selectDeliveries(
  client: pg.ClientBase,
  replay: UnfinishedReplay,
  nextCreatedAt: string | null,
): Promise<SelectedDelivery[]> {
  const { endpointId, clinicId, deliveryIds, since, until, statuses, position } = replay;
  const unsuccessfulStatuses = statuses.map((status) => (status === "delivered" ? "none" : status));
  const { rows } = await client.query<SelectedDelivery>(
    deliveryIds
      ? { name: "replay by id", text: SELECT_BY_ID_SQL, values: [deliveryIds, endpointId, statuses, position] }
      : {
          name: "replay by time",
          text: SELECT_BY_TIME_SQL,
          values: [
            ...[nextCreatedAt ?? since, endpointId, statuses, position, unsuccessfulStatuses],
            ...[deliveredEventTypes[clinicId === null ? "application" : "clinic"], until],
          ],
        },
  );
  return rows;
}

/**
 * SQL expression for the new status of a delivery: `pending`, `skipped` if the endpoint `e` is disabled, or `cancelled`
 * if it is revoked.
 */
const STATUS_SQL = `CASE e.status WHEN 'active' THEN 'pending' WHEN 'disabled' THEN 'skipped' ELSE 'cancelled' END`;

const REQUEUE_SQL = `
  WITH requeued AS (
    UPDATE webhooks.delivery d
       SET status = ${STATUS_SQL},
           next_attempt_at = CASE ${STATUS_SQL} WHEN 'pending' THEN $2::timestamptz END,
           replay_position = $3, cause_id = $4, correlation_id = $5, updated_at = $2
      FROM ${READ_MODEL_SCHEMA}.webhook_endpoint e
     WHERE d.delivery_id = ANY ($1::uuid[]) AND e.endpoint_id = d.endpoint_id AND ${buildReplayableSql("$6", "$3")}
    RETURNING d.delivery_id, d.endpoint_id, d.branch_id, d.animal_id, d.attempt_count, d.status, d.event_id,
              d.event_position, CASE e.ordering WHEN 'appointment' THEN d.appointment_id END AS ordering_key
  ),
  queued AS (
    INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, branch_id, animal_id, event_id, event_position,
      next_attempt_at, failed_attempt_count, attempt_count, ordering_key, is_blocked)
    SELECT delivery_id, endpoint_id, branch_id, animal_id, event_id, event_position, $2, 0, attempt_count, ordering_key,
           ordering_key IS NOT NULL
      FROM requeued
     WHERE status = 'pending'
  )
  SELECT endpoint_id AS "endpointId", ordering_key AS "orderingKey" FROM requeued`;

/**
 * Queues deliveries again, in the caller's transaction. Leaves deliveries unchanged that the request may not replay.
 * After the commit, the caller must pass the groups of the returned deliveries to `arrange`.
 *
 * @param now milliseconds since 1970
 */
export async function requeueDeliveries(
  client: pg.ClientBase,
  deliveries: readonly SelectedDelivery[],
  { requestId, position, correlationId, statuses }: UnfinishedReplay,
  now: number,
): Promise<OrderableDelivery[]> {
  const { rows } = await client.query<OrderableDelivery>({
    name: "requeue deliveries",
    text: REQUEUE_SQL,
    values: [
      deliveries.map(({ deliveryId }) => deliveryId),
      ...[toInstant(now), position, requestId, correlationId, statuses],
    ],
  });
  return rows;
}

export interface UnfinishedReplay {
  replayId: string;
  endpointId: string;
  /** Null if the endpoint belongs to no clinic, only to the application. */
  clinicId: string | null;
  /** Null if the request lists delivery ids. */
  since: Instant | null;
  until: Instant;
  statuses: ReplayableStatus[];
  deliveryIds: string[] | null;
  /** Id of the event that requested the replay. It becomes the cause of the deliveries. */
  requestId: string;
  /** Log position of the request. Prevents a delivery from being replayed twice for the same request. */
  position: bigint;
  correlationId: string;
}

/** Maximum number of replays that one pass continues. */
const MAX_REPLAYS = 200;

/** Maximum number of replays that one pass reads for an application. Limits the cost of many requests. */
const MAX_CANDIDATES = 100;

const TABLE = `${READ_MODEL_SCHEMA}.webhook_replay`;

/** Reads one index entry for each application, and then at most `MAX_CANDIDATES` replays of each application. */
const UNFINISHED_REPLAYS_SQL = `
  WITH RECURSIVE applications AS (
    (SELECT application_id AS id FROM ${TABLE} WHERE outcome IS NULL ORDER BY application_id LIMIT 1)
    UNION ALL
    SELECT (SELECT application_id FROM ${TABLE} WHERE outcome IS NULL AND application_id > applications.id
             ORDER BY application_id LIMIT 1)
      FROM applications WHERE id IS NOT NULL
  )
  SELECT unfinished.*
    FROM applications
   CROSS JOIN LATERAL (
     SELECT * FROM (SELECT *, sum(COALESCE(jsonb_array_length("deliveryIds"), ${MAX_BATCH_SIZE}))
                            OVER (ORDER BY updated_at NULLS FIRST, requested_at, "replayId") AS size FROM (
       SELECT r.replay_id AS "replayId", r.endpoint_id AS "endpointId", r.clinic_id AS "clinicId",
              rfc3339(r.since) AS since, rfc3339(r.until) AS until, r.statuses, r.delivery_ids AS "deliveryIds",
              r.request_id AS "requestId", r.position, r.correlation_id AS "correlationId", r.requested_at, w.updated_at
         FROM ${TABLE} r
         LEFT JOIN webhooks.replay w ON w.replay_id = r.replay_id
        WHERE r.application_id = applications.id AND r.outcome IS NULL AND w.outcome IS NULL
        LIMIT ${MAX_CANDIDATES}) candidate) sized
      WHERE size <= ${MAX_BATCH_SIZE}) unfinished
   WHERE ${READ_MODELS_CURRENT_SQL}
   ORDER BY updated_at NULLS FIRST, requested_at
   LIMIT ${MAX_REPLAYS}`;

/**
 * Finds the unfinished replays to continue, longest waiting first. The replays returned for one application have at
 * most one batch of deliveries in total. So an application does not get more capacity by requesting more replays.
 */
export async function findUnfinishedReplays(pool: pg.Pool): Promise<UnfinishedReplay[]> {
  const { rows } = await pool.query<UnfinishedReplay>({ name: "unfinished replays", text: UNFINISHED_REPLAYS_SQL });
  return rows;
}
