import type pg from "pg";
import type { EncryptedHeader, WebhookBodyFormat } from "../../../shared/domain/events/partner.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { buildIsDeliveryVisibleSql } from "../../../shared/partner-api/animal-access.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { FormerSecret } from "../../read-models/webhook-secrets.ts";
import { DELIVERY_ROUND_COLUMNS, type DeliveryRound } from "../record/outbox.ts";
import {
  buildActiveEndpointSql,
  type DueEndpoint,
  IS_DUE_SQL,
  LANE_CONDITIONS,
  type Lane,
  READ_MODELS_CURRENT_SQL,
} from "../schedule/due.ts";
import type { SlotGrant } from "../schedule/slots.ts";

/** A leased delivery that this process may attempt once before the lease expires. The attempt is already recorded. */
export interface ClaimedDelivery extends DeliveryRound {
  lane: Lane;
  applicationId: string;
  body: string;
  bodyFormat: WebhookBodyFormat;
  url: string;
  /** Encrypted signing secrets: the current secret first, then former secrets that are still valid. */
  encryptedSecrets: string[];
  encryptedHeaders: EncryptedHeader[];
  hasAsymmetricSignature: boolean;
  /** Number of this attempt, counted from 1 across all rounds of the delivery. */
  attemptNumber: number;
  /** Milliseconds since 1970. */
  startedAt: number;
  /** Number of this attempt, counted from 1 in the current round. */
  attempts: number;
  /** Null if the order does not matter. */
  orderingKey: string | null;
}

interface ClaimedEndpoint {
  endpoint: DueEndpoint;
  isFailing: boolean;
  /** True if the claim filled all available slots of the endpoint, so that more deliveries may be due. */
  hasMore: boolean;
  /** Time until the rate limit permits the next attempt. 0 if it permits one now. */
  pauseMs: number;
}

interface EndpointRow {
  ordinal: number;
  failing: boolean;
  /** Null if deliveries may not be sent to the endpoint. */
  capacity: number | null;
  pauseMs: number;
}

interface DeliveryRow extends Omit<ClaimedDelivery, "lane" | "startedAt" | "encryptedSecrets" | "encryptedHeaders"> {
  encryptedSecret: string | null;
  formerSecrets: FormerSecret[] | null;
  encryptedHeaders: EncryptedHeader[] | null;
}

/** An endpoint without claimed deliveries has one row. */
type ClaimRow = EndpointRow & (DeliveryRow | { deliveryId: null });

/**
 * Claims and leases due deliveries, at most one for each granted slot.
 *
 * @param excludedDeliveryIds ids of deliveries that this process still reserves, although their lease may have ended
 * @param lease owner and length of the lease. The length is longer than any attempt. If the sender is gone, nothing is
 *   claimed
 * @param now milliseconds since 1970
 */
export async function claimDueDeliveries(
  db: pg.Pool | pg.ClientBase,
  grants: readonly SlotGrant[],
  excludedDeliveryIds: readonly string[],
  { senderId, leaseMs }: { senderId: string; leaseMs: number },
  now: number,
): Promise<{ deliveries: ClaimedDelivery[]; endpoints: ClaimedEndpoint[] }> {
  const values = [
    toInstant(now),
    toInstant(now + leaseMs),
    excludedDeliveryIds,
    grants.map(({ lane }) => lane),
    grants.map(({ endpointId }) => endpointId),
    grants.map(({ slotCount }) => slotCount),
    grants.map(({ occupiedSlots }) => occupiedSlots),
    senderId,
    findRepeated(grants),
  ];
  const { rows } = await db.query<ClaimRow>({ name: "claim due deliveries", text: CLAIM_SQL, values });
  return toClaim(rows, grants, now);
}

function toClaim(rows: readonly ClaimRow[], grants: readonly SlotGrant[], now: number) {
  const deliveries: ClaimedDelivery[] = [];
  const countsByOrdinal = new Map<number, EndpointRow & { count: number }>();
  for (const row of rows) {
    const { ordinal, failing, capacity, pauseMs, ...delivery } = row;
    const lane = grants[ordinal - 1]?.lane;
    const countBefore = countsByOrdinal.get(ordinal)?.count ?? 0;
    const hasDelivery = delivery.deliveryId !== null && lane !== undefined;
    if (hasDelivery) deliveries.push(toClaimedDelivery(delivery, lane, now));
    const count = countBefore + (hasDelivery ? 1 : 0);
    countsByOrdinal.set(ordinal, { ordinal, failing, capacity, pauseMs, count });
  }
  const endpoints = grants.flatMap((endpoint, index): ClaimedEndpoint[] => {
    const row = countsByOrdinal.get(index + 1);
    if (!row) return [];
    const { failing: isFailing, pauseMs } = row;
    return [{ endpoint, isFailing, pauseMs, hasMore: row.capacity !== null && row.count >= row.capacity }];
  });
  return { deliveries, endpoints };
}

function findRepeated(grants: readonly SlotGrant[]): boolean[] {
  const endpointIds = new Set<string>();
  return grants.map(({ endpointId }) => {
    const isRepeated = endpointIds.has(endpointId);
    endpointIds.add(endpointId);
    return isRepeated;
  });
}

function toClaimedDelivery(row: DeliveryRow, lane: Lane, now: number): ClaimedDelivery {
  const { encryptedSecret: currentSecret, formerSecrets, encryptedHeaders, ...delivery } = row;
  const unexpiredSecrets = (formerSecrets ?? []).filter(({ expiresAt }) => Date.parse(expiresAt) > now);
  const secrets = [currentSecret, ...unexpiredSecrets.map(({ encryptedSecret }) => encryptedSecret)];
  const encryptedSecrets = secrets.filter((secret) => secret !== null);
  return { ...delivery, lane, startedAt: now, encryptedSecrets, encryptedHeaders: encryptedHeaders ?? [] };
}

/** Number of slots that the endpoint `a` may use: one while it is failing (`f`), null if it is inactive. */
const CAPACITY_SQL = `
  CASE WHEN a.endpoint_id IS NULL THEN NULL
       WHEN f.endpoint_id IS NULL THEN x.slots
       ELSE LEAST(x.slots, GREATEST(1 - x.busy, 0)) END`;

/** Endpoints with slots. `is_repeated` is true for an endpoint that an earlier element already contains. */
const CANDIDATE_SQL = `
  candidate AS MATERIALIZED (
    SELECT x.ordinal::integer, x.lane, x.endpoint_id, x.is_repeated, a.url, a.body_format, a.branch_ids,
           a.animal_access, a.application_id, a.rate_limit_per_second AS rate_limit, f.endpoint_id IS NOT NULL AS failing, ${CAPACITY_SQL} AS capacity
      FROM unnest((SELECT $4::text[]), (SELECT $5::uuid[]), (SELECT $6::integer[]), (SELECT $7::integer[]),
                  (SELECT $9::boolean[]))
           WITH ORDINALITY AS x (lane, endpoint_id, slots, busy, is_repeated, ordinal)
      LEFT JOIN LATERAL (${buildActiveEndpointSql("x.endpoint_id")}) a ON ${READ_MODELS_CURRENT_SQL}
      LEFT JOIN webhooks.failing_endpoint f ON f.endpoint_id = x.endpoint_id
  )`;

/**
 * Time by which an attempt may start before its position in the even spacing of a rate limit. Without this tolerance,
 * late decisions would make the endpoint slower than its limit. In any second, an endpoint therefore gets at most a
 * tenth more attempts than its limit, plus one.
 */
const PACE_TOLERANCE_S = 0.1;

/** Locks the paces of the candidates. Skips paces that another process has locked, so that claims never wait. */
const PACE_SQL = `
  pace AS MATERIALIZED (
    SELECT endpoint_id, next_start_at FROM webhooks.endpoint_pace
     WHERE endpoint_id = ANY (ARRAY(SELECT endpoint_id FROM candidate WHERE rate_limit IS NOT NULL))
       FOR UPDATE SKIP LOCKED
  )`;

/**
 * SQL expression for the number of attempts at the endpoint `c` that may start now. The generic cell rate algorithm
 * spaces them evenly. While another process holds the lock on the endpoint's pace, none may start. Of several lanes of
 * an endpoint, only the first in the claim may use the pace.
 */
const PERMITTED_STARTS_SQL = `
  CASE WHEN c.is_repeated OR (pace.endpoint_id IS NULL AND known.endpoint_id IS NOT NULL) THEN 0
       ELSE GREATEST(0, 1 + floor(c.rate_limit * (${PACE_TOLERANCE_S}
              - GREATEST(0, COALESCE(extract(epoch FROM pace.next_start_at - now())::float8, 0)))))::integer END`;

/** Allots slots to endpoints, and no more than the pace of each endpoint permits. */
const ALLOTTED_SQL = `
  allotted AS MATERIALIZED (
    SELECT c.ordinal, c.lane, c.endpoint_id, c.url, c.body_format, c.branch_ids, c.animal_access, c.application_id, c.rate_limit,
           c.failing, known.next_start_at,
           CASE WHEN c.rate_limit IS NULL THEN c.capacity ELSE LEAST(c.capacity, ${PERMITTED_STARTS_SQL}) END AS capacity
      FROM candidate c
      LEFT JOIN pace ON pace.endpoint_id = c.endpoint_id
      LEFT JOIN webhooks.endpoint_pace known ON known.endpoint_id = c.endpoint_id
  )`;

/**
 * Moves the pace of each endpoint by the number of its leased deliveries. All processes insert missing paces in the
 * order of the ids, so that two claims that insert the same paces cannot deadlock.
 */
const RECORD_PACE_SQL = `
  started AS (
    SELECT e.endpoint_id, make_interval(secs => count(*)::float8 / e.rate_limit) AS duration
      FROM leased
      JOIN (SELECT DISTINCT endpoint_id, rate_limit FROM allotted WHERE rate_limit IS NOT NULL) e USING (endpoint_id)
     GROUP BY e.endpoint_id, e.rate_limit
  ),
  paced AS (
    INSERT INTO webhooks.endpoint_pace AS p (endpoint_id, next_start_at)
    SELECT endpoint_id, now() + duration FROM started ORDER BY endpoint_id
    ON CONFLICT (endpoint_id) DO UPDATE
       SET next_start_at = GREATEST(p.next_start_at, now()) + (excluded.next_start_at - now())
    RETURNING p.endpoint_id, p.next_start_at
  )`;

/** Time until the pace of the endpoint `x` permits the next attempt. */
const PAUSE_MS_SQL = `
  CASE WHEN x.rate_limit IS NOT NULL THEN 1000 * GREATEST(0, COALESCE(
         extract(epoch FROM COALESCE(paced.next_start_at, x.next_start_at) - now())::float8, 0) - ${PACE_TOLERANCE_S})
       ELSE 0 END`;

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
        AND ${buildIsDeliveryVisibleSql("pending_delivery", { animalAccess: "e.animal_access", applicationId: "e.application_id" })}
      ORDER BY next_attempt_at
      LIMIT GREATEST(e.capacity, 0)
        FOR UPDATE SKIP LOCKED) d
   WHERE e.lane = '${lane}' AND e.capacity > 0`;

/**
 * Chooses deliveries, leases them, and records each attempt with an unknown outcome, all in one
 * transaction. Only attempts with a recorded outcome count towards the retry schedule. An inactive endpoint gets no
 * slots, and a failing endpoint occupies at most one slot.
 *
 * The array parameters are wrapped in sub-selects, so that Postgres uses one plan for arrays of any length. The ids of
 * the chosen deliveries form an array instead of a join, because Postgres may plan the statement while the table of
 * pending deliveries is empty. With a join, it could then read the whole table.
 */
const CLAIM_SQL = `
  WITH ${CANDIDATE_SQL},
  ${PACE_SQL},
  ${ALLOTTED_SQL},
  chosen AS MATERIALIZED (${buildDueDeliveriesSql("first")} UNION ALL ${buildDueDeliveriesSql("retry")}),
  leased AS (
    UPDATE webhooks.pending_delivery p
       SET attempt_count = p.attempt_count + 1, lease_expires_at = $2, sender_id = $8
     WHERE p.delivery_id = ANY (ARRAY(SELECT delivery_id FROM chosen))
       AND EXISTS (SELECT FROM webhooks.sender WHERE sender_id = $8)
    RETURNING p.delivery_id, p.endpoint_id, p.body, p.attempt_count, p.round_attempt_count + 1 AS round_attempt,
              p.traceparent, p.ordering_key,
              CASE p.round_attempt_count WHEN 0 THEN 'first' ELSE 'retry' END AS lane
  ),
  recorded AS (
    INSERT INTO webhooks.attempt (delivery_id, number, started_at)
    SELECT delivery_id, attempt_count, $1 FROM leased
    ON CONFLICT DO NOTHING
  ),
  ${RECORD_PACE_SQL}
  SELECT x.ordinal, x.failing, x.capacity, ${PAUSE_MS_SQL} AS "pauseMs",
         ${DELIVERY_ROUND_COLUMNS}, d.application_id AS "applicationId", d.body, x.url,
         d.attempt_count AS "attemptNumber", d.round_attempt AS attempts, d.traceparent,
         d.ordering_key AS "orderingKey", x.body_format AS "bodyFormat",
         d.encrypted_secret AS "encryptedSecret", d.former_secrets AS "formerSecrets", d.headers AS "encryptedHeaders",
         COALESCE(d.asymmetric_signature, false) AS "hasAsymmetricSignature"
    FROM allotted x
    LEFT JOIN paced ON paced.endpoint_id = x.endpoint_id
    LEFT JOIN (SELECT leased.*, d.application_id, d.clinic_id, d.environment, d.cause_id, d.correlation_id,
                      d.event_id, d.event_stream, d.event_revision, s.encrypted_secret, s.former_secrets, s.headers,
                      s.asymmetric_signature
                 FROM leased
                 JOIN webhooks.delivery d USING (delivery_id)
                 LEFT JOIN ${READ_MODEL_SCHEMA}.webhook_secret s ON s.endpoint_id = leased.endpoint_id) d
      ON d.endpoint_id = x.endpoint_id AND d.lane = x.lane`;
