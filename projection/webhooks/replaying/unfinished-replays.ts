import type pg from "pg";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import type { ReplayableStatus } from "../../../shared/domain/events/partner.ts";
import type { Instant } from "../../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { READ_MODELS_CURRENT_SQL } from "../scheduling/due.ts";

/** A replay of several deliveries that has not ended. */
export interface UnfinishedReplay {
  replayId: string;
  endpointId: string;
  clinicId: string;
  environment: Environment;
  /** Null if `deliveryIds` selects deliveries. */
  since: Instant | null;
  until: Instant;
  statuses: ReplayableStatus[];
  deliveryIds: string[] | null;
  /** Id and log position of the event that requested the replay. */
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
