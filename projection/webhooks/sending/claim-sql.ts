import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { DELIVERY_ROUND_COLUMNS } from "../outbox/facts.ts";
import { buildActiveEndpointSql, IS_DUE_SQL, LANE_CONDITIONS, READ_MODELS_CURRENT_SQL } from "../scheduling/due.ts";
import type { Lane } from "../scheduling/due-endpoints.ts";
import { ALLOTTED_BY_PACE_SQL, PACE_SQL, PAUSE_MS_SQL, RECORD_PACE_SQL } from "./pace-sql.ts";

/** Number of slots that the endpoint `a` may use: one while it is failing (`f`), null if it is inactive. */
const CAPACITY_SQL = `
  CASE WHEN a.endpoint_id IS NULL THEN NULL
       WHEN f.endpoint_id IS NULL THEN x.slots
       ELSE LEAST(x.slots, GREATEST(1 - x.busy, 0)) END`;

const ENDPOINT_JOINS_SQL = `
      LEFT JOIN LATERAL (${buildActiveEndpointSql("x.endpoint_id")}) a ON ${READ_MODELS_CURRENT_SQL}
      LEFT JOIN webhooks.failing_endpoint f ON f.endpoint_id = x.endpoint_id`;

/** Allots slots to endpoints. An endpoint with a rate limit gets none, because its pace is unknown. */
const ALLOTTED_SQL = `
  allotted AS MATERIALIZED (
    SELECT x.ordinal::integer, x.lane, x.endpoint_id, a.url, a.body_format, a.branch_ids,
           f.endpoint_id IS NOT NULL AS failing,
           a.rate_limit_per_second IS NOT NULL AS is_limited,
           CASE WHEN a.rate_limit_per_second IS NULL THEN ${CAPACITY_SQL} ELSE 0 END AS capacity
      FROM unnest((SELECT $4::text[]), (SELECT $5::uuid[]), (SELECT $6::integer[]), (SELECT $7::integer[]))
           WITH ORDINALITY AS x (lane, endpoint_id, slots, busy, ordinal)
      ${ENDPOINT_JOINS_SQL}
  ),`;

/** Allots slots to endpoints, and no more than the pace of each endpoint permits. */
const ALLOTTED_WITH_PACE_SQL = `
  candidate AS MATERIALIZED (
    SELECT x.ordinal::integer, x.lane, x.endpoint_id, x.is_repeated, a.url, a.body_format, a.branch_ids,
           a.rate_limit_per_second AS rate_limit, f.endpoint_id IS NOT NULL AS failing, ${CAPACITY_SQL} AS capacity
      FROM unnest((SELECT $4::text[]), (SELECT $5::uuid[]), (SELECT $6::integer[]), (SELECT $7::integer[]),
                  (SELECT $8::boolean[]))
           WITH ORDINALITY AS x (lane, endpoint_id, slots, busy, is_repeated, ordinal)
      ${ENDPOINT_JOINS_SQL}
  ),
  ${PACE_SQL},
  ${ALLOTTED_BY_PACE_SQL},`;

/**
 * Returns SQL that selects and locks due deliveries of a lane: the oldest deliveries of each endpoint, up to the
 * endpoint's number of slots.
 */
const buildDueDeliveriesSql = (lane: Lane) => `
  SELECT d.delivery_id
    FROM allotted e
   CROSS JOIN LATERAL (
     SELECT delivery_id
       FROM webhooks.pending_delivery
      WHERE endpoint_id = e.endpoint_id AND ${LANE_CONDITIONS[lane]} AND ${IS_DUE_SQL}
        AND delivery_id <> ALL ($3::uuid[])
        AND (e.branch_ids IS NULL OR branch_id IS NULL OR e.branch_ids ? branch_id::text)
      ORDER BY next_attempt_at
      LIMIT GREATEST(e.capacity, 0)
        FOR UPDATE SKIP LOCKED) d
   WHERE e.lane = '${lane}' AND e.capacity > 0`;

/**
 * Returns SQL that chooses deliveries, leases them, and records each attempt with an unknown outcome, all in one
 * transaction. Only attempts with a recorded outcome count towards the retry schedule. An inactive endpoint gets no
 * slots, and a failing endpoint occupies at most one slot.
 *
 * The array parameters are wrapped in sub-selects, so that Postgres uses one plan for arrays of any length. The ids of
 * the chosen deliveries form an array instead of a join, because Postgres may plan the statement while the table of
 * pending deliveries is empty. With a join, it could then read the whole table.
 */
const buildClaimSql = (hasPace: boolean) => `
  WITH ${hasPace ? ALLOTTED_WITH_PACE_SQL : ALLOTTED_SQL}
  chosen AS MATERIALIZED (${buildDueDeliveriesSql("first")} UNION ALL ${buildDueDeliveriesSql("retry")}),
  leased AS (
    UPDATE webhooks.pending_delivery p
       SET attempt_count = p.attempt_count + 1, lease_expires_at = $2
     WHERE p.delivery_id = ANY (ARRAY(SELECT delivery_id FROM chosen))
    RETURNING p.delivery_id, p.endpoint_id, p.body, p.attempt_count, p.round_attempt_count + 1 AS round_attempt,
              p.traceparent, p.ordering_key,
              CASE p.round_attempt_count WHEN 0 THEN 'first' ELSE 'retry' END AS lane
  ),
  recorded AS (
    INSERT INTO webhooks.attempt (delivery_id, number, started_at)
    SELECT delivery_id, attempt_count, $1 FROM leased
  )${hasPace ? `, ${RECORD_PACE_SQL}` : ""}
  SELECT x.ordinal, x.failing, x.capacity, x.is_limited AS "isLimited", ${hasPace ? PAUSE_MS_SQL : "0"} AS "pauseMs",
         ${DELIVERY_ROUND_COLUMNS}, d.application_id AS "applicationId", d.body, x.url,
         d.attempt_count AS "attemptNumber", d.round_attempt AS attempts, d.traceparent,
         d.ordering_key AS "orderingKey", x.body_format AS "bodyFormat",
         d.encrypted_secret AS "encryptedSecret", d.former_secrets AS "formerSecrets", d.headers AS "encryptedHeaders",
         COALESCE(d.asymmetric_signature, false) AS "hasAsymmetricSignature"
    FROM allotted x
    ${hasPace ? "LEFT JOIN paced ON paced.endpoint_id = x.endpoint_id" : ""}
    LEFT JOIN (SELECT leased.*, d.application_id, d.clinic_id, d.environment, d.cause_id, d.correlation_id,
                      d.event_stream, d.event_revision, s.encrypted_secret, s.former_secrets, s.headers,
                      s.asymmetric_signature
                 FROM leased
                 JOIN webhooks.delivery d USING (delivery_id)
                 LEFT JOIN ${READ_MODEL_SCHEMA}.webhook_secret s ON s.endpoint_id = leased.endpoint_id) d
      ON d.endpoint_id = x.endpoint_id AND d.lane = x.lane`;

/** Claims deliveries only to endpoints without a rate limit. Most claims use this statement, because it is cheaper. */
export const CLAIM_SQL = buildClaimSql(false);

/** Claims deliveries to all endpoints. $8 is true for an endpoint that an earlier element already contains. */
export const CLAIM_WITH_PACE_SQL = buildClaimSql(true);
