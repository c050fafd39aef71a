import type pg from "pg";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import { applicationEventType, deliveredEventType } from "../../../shared/domain/events/partner.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { buildIsDeliveryVisibleSql } from "../../../shared/partner-api/animal-access.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { MAX_LATE_AGE } from "../../checkpoints/late-events.ts";
import type { DueEndpoint } from "../schedule/schedule.ts";
import { listGroups, type OrderedGroup } from "./ordering.ts";

/** Maximum number of events in a batch. */
export const MAX_BATCH_SIZE = 250;

export interface AddedDeliveries {
  /**
   * Position of the checkpoint, which this batch may have moved. Null if the checkpoint belongs to other read models.
   */
  position: bigint | null;
  /** True if another process moved the checkpoint first, so that nothing was added. */
  isLost: boolean;
  hasMore: boolean;
  /** Endpoints with new deliveries that are due. */
  dueEndpoints: DueEndpoint[];
  /** Groups with new blocked deliveries. The caller must pass these groups to {@link arrange}. */
  heldGroups: OrderedGroup[];
  /** True if a replay was requested. */
  hasReplays: boolean;
}

const listSql = (values: readonly string[]) => values.map((value) => `'${value}'`).join(", ");

/**
 * Selects late events up to the checkpoint ($1). If all late events fit into the batch, also selects the public events
 * after the checkpoint. One snapshot for both keeps the events of a stream in order.
 *
 * Also moves the checkpoint to the last selected event. If no more events follow, the checkpoint moves to the position
 * of the read models.
 */
const CHOSEN_SQL = `
  read_models AS MATERIALIZED (SELECT position, event_id FROM ${READ_MODEL_SCHEMA}.checkpoint),
  late AS MATERIALIZED (
    SELECT l.event_id FROM webhooks.late_event l
     CROSS JOIN LATERAL (
       SELECT FROM ${READ_MODEL_SCHEMA}.public_event WHERE event_id = l.event_id LIMIT 1) e
     WHERE needs_deliveries AND next_try_at <= now() AND l.position <= $1
     ORDER BY l.position LIMIT $3
  ),
  ranged AS MATERIALIZED (
    SELECT event_id, position FROM ${READ_MODEL_SCHEMA}.public_event
     WHERE type IS NOT NULL AND position > $1 AND position <= (SELECT position FROM read_models)
       AND (SELECT count(*) FROM late) < $3
     ORDER BY position LIMIT $3
  ),
  target AS MATERIALIZED (
    (SELECT position, event_id FROM ranged WHERE (SELECT count(*) FROM ranged) = $3 ORDER BY position DESC LIMIT 1)
    UNION ALL
    SELECT position, event_id FROM read_models
     WHERE (SELECT count(*) FROM ranged) < $3 AND (SELECT count(*) FROM late) < $3
    UNION ALL
    SELECT $1, NULL WHERE (SELECT count(*) FROM late) = $3
  ),
  moved AS (
    UPDATE webhooks.checkpoint c SET position = target.position, event_id = COALESCE(target.event_id, c.event_id)
      FROM target
     WHERE c.name = 'deliveries' AND c.position = $1 AND c.read_models = '${READ_MODEL_SCHEMA}'
       AND (target.position > $1 OR (target.position = $1 AND EXISTS (SELECT FROM late)))
    RETURNING c.position
  )`;

/**
 * Selects the data of the chosen events, if the checkpoint has moved. LATERAL with LIMIT or OFFSET makes Postgres look
 * up each row by an index, even if it planned the statement while the tables were small.
 */
const EVENTS_SQL = `
  event AS MATERIALIZED (
    SELECT e.*, e.type IN (${listSql(applicationEventType.options)}) AS is_about_application,
           COALESCE(own.application_id, i.application_id) AS only_application_id
      FROM (SELECT event_id, true AS is_late FROM late UNION ALL SELECT event_id, false FROM ranged) chosen
     CROSS JOIN LATERAL (
       SELECT * FROM ${READ_MODEL_SCHEMA}.public_event WHERE event_id = chosen.event_id LIMIT 1) e
      LEFT JOIN LATERAL (
       SELECT application_id FROM ${READ_MODEL_SCHEMA}.webhook_endpoint WHERE endpoint_id = e.endpoint_id LIMIT 1) own ON true
      LEFT JOIN LATERAL (
       SELECT application_id FROM ${READ_MODEL_SCHEMA}.installation WHERE installation_id = e.installation_id LIMIT 1) i
        ON true
     WHERE e.type IN (${listSql(deliveredEventType.options)}) AND EXISTS (SELECT FROM moved)
       AND NOT (is_late AND e.occurred_at < $2::timestamptz - interval '${MAX_LATE_AGE}')
  )`;

/**
 * Finds the endpoints for each event. An endpoint matches if all of these conditions are true:
 *
 * - It belongs to the event's owner and environment, was registered before the event, and is not revoked.
 * - It subscribed to the event's type. A test event matches only the endpoint under test, even without a subscription.
 * - It is not limited to other branches.
 * - If it belongs to a clinic, its application had access to the event's branch and animal before the event.
 * - If only one application may receive the event, it belongs to this application.
 * - The event is not an operational event about this endpoint, except the expiry of a secret.
 */
const MATCHED_SQL = `
  matched AS MATERIALIZED (
    SELECT webhooks.delivery_id(v.event_id, e.endpoint_id) AS delivery_id, e.endpoint_id, e.application_id, e.clinic_id,
           v.branch_id, v.animal_id, v.environment, v.event_id, v.type, v.position, v.appointment_id, v.correlation_id,
           v.traceparent, CASE e.status WHEN 'active' THEN 'pending' ELSE 'skipped' END AS status,
           CASE e.ordering WHEN 'appointment' THEN v.appointment_id END AS ordering_key
      FROM event v
     CROSS JOIN LATERAL (
       SELECT * FROM ${READ_MODEL_SCHEMA}.webhook_endpoint
        WHERE owner_id = CASE WHEN v.is_about_application THEN v.only_application_id
                              ELSE COALESCE(v.clinic_id, v.only_application_id) END AND status <> 'revoked' OFFSET 0) e
      LEFT JOIN LATERAL (
       SELECT * FROM ${READ_MODEL_SCHEMA}.installation
        WHERE application_id = e.application_id AND clinic_id = e.clinic_id AND status = 'approved'
          AND approved_position < v.position LIMIT 1) i
        ON (i.branch_ids IS NULL OR v.branch_id IS NULL OR i.branch_ids ? v.branch_id::text)
       AND ${buildIsDeliveryVisibleSql("v", { animalAccess: "i.animal_access", applicationId: "e.application_id" })}
     CROSS JOIN LATERAL (
       SELECT revoked FROM ${READ_MODEL_SCHEMA}.partner_application WHERE application_id = e.application_id LIMIT 1) a
     WHERE e.environment = v.environment AND NOT a.revoked AND (e.clinic_id IS NULL OR i.installation_id IS NOT NULL)
       AND CASE WHEN v.type = 'endpoint.test' THEN e.endpoint_id = v.endpoint_id
                WHEN v.only_application_id IS NULL THEN e.events ? v.type
                ELSE e.application_id = v.only_application_id AND (e.events || e.operational_events) ? v.type
                  AND (v.type = 'secret.expiring' OR e.endpoint_id IS DISTINCT FROM v.endpoint_id) END
       AND e.registered_position < v.position
       AND (e.branch_ids IS NULL OR v.branch_id IS NULL OR e.branch_ids ? v.branch_id::text)
  )`;

/** Returns an SQL condition: the delivery is in the CTE. With CASE, Postgres looks up ids in a hash table. */
const buildIsInSql = (cte: string) => `CASE WHEN delivery_id IN (SELECT delivery_id FROM ${cte}) THEN true END`;

/**
 * Inserts deliveries, and a row in `pending_delivery` for each pending delivery. If another transaction has locked a
 * late event, the event is chosen again later, but adds no delivery twice.
 */
const INSERT_SQL = `
  added AS (
    INSERT INTO webhooks.delivery (delivery_id, endpoint_id, application_id, clinic_id, branch_id, animal_id, environment,
      event_id, event_type, event_position, appointment_id, status, cause_id, correlation_id, next_attempt_at, created_at,
      updated_at)
    SELECT delivery_id, endpoint_id, application_id, clinic_id, branch_id, animal_id, environment, event_id, type,
           position, appointment_id, status, event_id, correlation_id, CASE status WHEN 'pending' THEN $2 END, $2, $2
      FROM matched ORDER BY delivery_id
    ON CONFLICT DO NOTHING
    RETURNING delivery_id
  ),
  queued AS (
    INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, branch_id, animal_id, event_id, event_position,
      next_attempt_at, failed_attempt_count, attempt_count, traceparent, ordering_key, is_blocked)
    SELECT delivery_id, endpoint_id, branch_id, animal_id, event_id, position, $2, 0, 0, traceparent, ordering_key,
           ordering_key IS NOT NULL
      FROM matched
     WHERE status = 'pending' AND ${buildIsInSql("added")}
    RETURNING delivery_id
  ),
  taken AS MATERIALIZED (
    SELECT event_id, needs_message FROM webhooks.late_event
     WHERE event_id IN (SELECT event_id FROM late) AND EXISTS (SELECT FROM moved) FOR UPDATE SKIP LOCKED
  ),
  finished AS (
    DELETE FROM webhooks.late_event WHERE event_id IN (SELECT event_id FROM taken WHERE NOT needs_message)
  ),
  delivered AS (
    UPDATE webhooks.late_event SET needs_deliveries = false
     WHERE event_id IN (SELECT event_id FROM taken WHERE needs_message)
  )`;

const ADD_SQL = `
  WITH ${CHOSEN_SQL}, ${EVENTS_SQL}, ${MATCHED_SQL}, ${INSERT_SQL}
  SELECT (SELECT position FROM moved) AS moved,
         (SELECT position FROM webhooks.checkpoint WHERE name = 'deliveries' AND read_models = '${READ_MODEL_SCHEMA}')
           AS position,
         GREATEST((SELECT count(*) FROM ranged), (SELECT count(*) FROM late)) AS count,
         EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.webhook_replay, read_models r
                  WHERE outcome IS NULL AND webhook_replay.position > $1 AND webhook_replay.position <= r.position)
           AS "hasReplays",
         m.environment, m.application_id AS "applicationId", m.endpoint_id AS "endpointId",
         m.ordering_key AS "orderingKey"
    FROM (SELECT) AS one
    LEFT JOIN (
      SELECT DISTINCT environment, application_id, endpoint_id, ordering_key
        FROM matched WHERE ${buildIsInSql("queued")}) m ON true`;

type AddedRow = {
  moved: bigint | null;
  position: bigint | null;
  count: bigint;
  hasReplays: boolean;
} & (QueuedEndpoint | Record<keyof QueuedEndpoint, null>);

interface QueuedEndpoint {
  environment: Environment;
  applicationId: string;
  endpointId: string;
  orderingKey: string | null;
}

/**
 * Moves the checkpoint, and adds a delivery of each new event for each matching endpoint, unless the delivery exists.
 * One statement does both, so no delivery is lost if the process is killed.
 *
 * @param after position of the checkpoint
 * @param limit maximum number of events
 * @param now milliseconds since 1970
 */
export async function addDeliveries(
  pool: pg.Pool,
  after: bigint,
  limit: number,
  now: number,
): Promise<AddedDeliveries> {
  const { rows } = await pool.query<AddedRow>({
    name: "add deliveries",
    text: ADD_SQL,
    values: [after, toInstant(now), limit],
  });
  const [first] = rows;
  if (!first) throw new Error("The statement that adds deliveries returned no row.");
  const queuedEndpoints = rows.filter((row): row is AddedRow & QueuedEndpoint => row.endpointId !== null);
  const { moved, position, count, hasReplays } = first;
  return {
    position: moved ?? position,
    isLost: moved === null && position !== after,
    hasMore: moved !== null && count === BigInt(limit),
    dueEndpoints: queuedEndpoints.flatMap(({ environment, applicationId, endpointId, orderingKey }) =>
      orderingKey === null ? [{ environment, applicationId, endpointId }] : [],
    ),
    heldGroups: listGroups(queuedEndpoints),
    hasReplays,
  };
}
