import type pg from "pg";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import { deliveredEventTypes, type ReplayableStatus } from "../../../shared/domain/events/partner.ts";
import { type Instant, toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { buildIsAnimalVisibleSql } from "../../../shared/partner-api/animal-access.ts";
import {
  PUBLIC_EVENT_JSON_SQL,
  type PublicEventRow,
  renderPublicEvent,
} from "../../../shared/partner-api/feed-event.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { arrange, listGroups, lockOrder, type OrderableDelivery } from "../match/ordering.ts";
import { DELIVERY_ROUND_COLUMNS, type DeliveryRound } from "../record/outbox.ts";
import { READ_MODELS_CURRENT_SQL } from "../schedule/due.ts";

/** Delivery to replay. Cause and correlation id belong to the previous round. */
export interface SelectedDelivery extends ReplayedDelivery {
  /** Contains microseconds. */
  createdAt: string;
}

/** Maximum number of deliveries in a batch. A request has at most as many ids. */
export const MAX_BATCH_SIZE = 100;

/** SQL condition for a delivery `d` whose branch and animal its application may see. Others appear not to exist. */
const IS_VISIBLE_SQL = `(d.branch_id IS NULL OR EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.installation i
    WHERE i.application_id = d.application_id AND i.clinic_id = d.clinic_id
      AND (i.branch_ids IS NULL OR i.branch_ids ? d.branch_id::text)
      AND ${buildIsAnimalVisibleSql({ animalAccess: "i.animal_access", applicationId: "i.application_id", animalId: "d.animal_id" })}))`;

/**
 * SQL condition for a delivery `d` that a request may replay: its status is one of the request's statuses, it has not
 * processed this request or a later one, and its application may see it.
 */
export const buildReplayableSql = (statuses: string, position: string) =>
  `d.status = ANY (${statuses}::text[]) AND COALESCE(d.replay_position, -1) < ${position} AND ${IS_VISIBLE_SQL}`;

/** SQL columns of a {@link ReplayedDelivery} `d`. */
export const REPLAYED_COLUMNS_SQL = `${DELIVERY_ROUND_COLUMNS}, (SELECT json_build_object(${PUBLIC_EVENT_JSON_SQL})
  FROM ${READ_MODEL_SCHEMA}.public_event e WHERE e.event_id = d.event_id AND e.type IS NOT NULL) AS event`;

const COLUMNS_SQL = `${REPLAYED_COLUMNS_SQL}, d.created_at::text AS "createdAt"`;

const SELECT_BY_ID_SQL = `
  SELECT ${COLUMNS_SQL} FROM webhooks.delivery d
   WHERE d.delivery_id = ANY ($1::uuid[]) AND d.endpoint_id = $2 AND ${buildReplayableSql("$3", "$4")}`;

/** Reads the oldest entries of each status and type in the index of the endpoint's deliveries, and merges them. */
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
 * Selects the next deliveries of a replay, oldest first. A delivery that the replay has processed is not selected
 * again.
 *
 * @param nextCreatedAt earliest time of creation; null for the first batch
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

/** A delivery whose body is created again. */
export interface ReplayedDelivery extends DeliveryRound {
  /** Null if the read models lack the event, for example because its stream is quarantined. */
  event: PublicEventRow | null;
}

/** Creates the body of a delivery again; undefined if the read models lack the event. */
export function recreateBody({ event, environment }: ReplayedDelivery): string | undefined {
  return event ? JSON.stringify(renderPublicEvent(event, environment)) : undefined;
}

export interface NewRound {
  deliveryId: string;
  causeId: string;
  /** Webhook body, created again from the event. */
  body: string;
}

interface RoundRequest {
  endpointId: string;
  /** Log position of the request. A delivery processes each request only once. */
  position: bigint;
  correlationId: string;
  statuses: readonly string[];
  traceparent?: string | null | undefined;
}

/** `skipped` if the endpoint is disabled, `cancelled` if it is revoked. */
export type RoundStatus = "pending" | "skipped" | "cancelled";

interface StartedRow extends OrderableDelivery {
  id: string;
  status: RoundStatus;
}

const STATUS_SQL = `CASE e.status WHEN 'active' THEN 'pending' WHEN 'disabled' THEN 'skipped' ELSE 'cancelled' END`;

const START_ROUNDS_SQL = `
  WITH round AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS r (delivery_id, cause_id, body)
  ),
  started AS (
    UPDATE webhooks.delivery d
       SET status = ${STATUS_SQL},
           next_attempt_at = CASE ${STATUS_SQL} WHEN 'pending' THEN $4::timestamptz END,
           replay_position = $5, cause_id = round.cause_id, correlation_id = $6, updated_at = $4
      FROM round, ${READ_MODEL_SCHEMA}.webhook_endpoint e
     WHERE d.delivery_id = ANY ($1::uuid[]) AND d.delivery_id = round.delivery_id AND e.endpoint_id = d.endpoint_id
       AND ${buildReplayableSql("$8", "$5")}
    RETURNING d.delivery_id, d.endpoint_id, d.branch_id, d.animal_id, d.attempt_count, d.status, d.event_revision,
              CASE WHEN e.ordering = 'appointment' AND d.event_stream LIKE 'appointment-%'
                   THEN substr(d.event_stream, 1 + length('appointment-'))::uuid END AS ordering_key
  ),
  queued AS (
    INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, branch_id, animal_id, body, next_attempt_at,
      round_attempt_count, attempt_count, traceparent, ordering_key, event_revision, is_held)
    SELECT delivery_id, endpoint_id, branch_id, animal_id, round.body, $4, 0, attempt_count, $7, ordering_key,
           CASE WHEN ordering_key IS NOT NULL THEN event_revision END, ordering_key IS NOT NULL
      FROM started JOIN round USING (delivery_id)
     WHERE status = 'pending'
  )
  SELECT delivery_id AS id, status, endpoint_id AS "endpointId", ordering_key AS "orderingKey" FROM started`;

/**
 * Starts rounds of deliveries, in the caller's transaction. Deliveries that the request may not replay stay unchanged.
 * First locks the order of deliveries to the endpoint, so the transaction must not have changed any deliveries.
 *
 * @param now milliseconds since 1970
 * @returns new status of each delivery whose round has started, by delivery id
 */
export async function startRounds(
  client: pg.ClientBase,
  rounds: readonly NewRound[],
  { endpointId, position, correlationId, statuses, traceparent }: RoundRequest,
  now: number,
): Promise<Map<string, RoundStatus>> {
  await lockOrder(client, [{ endpointId }]);
  const { rows } = await client.query<StartedRow>({
    name: "start rounds",
    text: START_ROUNDS_SQL,
    values: [
      rounds.map(({ deliveryId }) => deliveryId),
      rounds.map(({ causeId }) => causeId),
      rounds.map(({ body }) => body),
      ...[toInstant(now), position, correlationId, traceparent, statuses],
    ],
  });
  await arrange(client, listGroups(rows), now);
  return new Map(rows.map(({ id, status }) => [id, status]));
}

export interface UnfinishedReplay {
  replayId: string;
  endpointId: string;
  /** Null if the endpoint belongs to the application. */
  clinicId: string | null;
  environment: Environment;
  /** Null if `deliveryIds` selects deliveries. */
  since: Instant | null;
  until: Instant;
  statuses: ReplayableStatus[];
  deliveryIds: string[] | null;
  requestId: string;
  position: bigint;
  correlationId: string;
}

/** Maximum number of replays that get a batch before the others are considered again. */
const MAX_REPLAYS = 20;

/** Maximum number of replays of an application that are considered. Limits the cost of many requests. */
const MAX_CANDIDATES = 100;

const TABLE = `${READ_MODEL_SCHEMA}.webhook_replay`;

/** Reads one index entry for each application, and then the replays of each application that are considered. */
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
     SELECT * FROM (
       SELECT r.replay_id AS "replayId", r.endpoint_id AS "endpointId", r.clinic_id AS "clinicId", r.environment,
              rfc3339(r.since) AS since, rfc3339(r.until) AS until, r.statuses, r.delivery_ids AS "deliveryIds",
              r.request_id AS "requestId", r.position, r.correlation_id AS "correlationId", r.requested_at, w.updated_at
         FROM ${TABLE} r
         LEFT JOIN webhooks.replay w ON w.replay_id = r.replay_id
        WHERE r.application_id = applications.id AND r.outcome IS NULL AND w.outcome IS NULL
        LIMIT ${MAX_CANDIDATES}) candidate
      ORDER BY updated_at NULLS FIRST, requested_at
      LIMIT 1) unfinished
   WHERE ${READ_MODELS_CURRENT_SQL}
   ORDER BY updated_at NULLS FIRST
   LIMIT ${MAX_REPLAYS}`;

/**
 * Finds replays that have not ended, at most one for each application. So an application with many replays gets no more
 * batches than others. The replay that has waited longest comes first.
 */
export async function findUnfinishedReplays(pool: pg.Pool): Promise<UnfinishedReplay[]> {
  const { rows } = await pool.query<UnfinishedReplay>({ name: "unfinished replays", text: UNFINISHED_REPLAYS_SQL });
  return rows;
}
