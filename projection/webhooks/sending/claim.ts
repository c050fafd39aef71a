import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { FormerSecret } from "../../read-models/webhook-secrets.ts";
import { DELIVERY_ROUND_COLUMNS, type DeliveryRound } from "../outbox/facts.ts";
import { buildActiveEndpointSql, IS_DUE_SQL, LANE_CONDITIONS, READ_MODELS_CURRENT_SQL } from "../scheduling/due.ts";
import type { DueEndpoint, Lane } from "../scheduling/due-endpoints.ts";
import type { SlotGrant } from "../scheduling/slots.ts";

/** A leased delivery that this process may attempt once before the lease expires. The attempt is already recorded. */
export interface ClaimedDelivery extends DeliveryRound {
  lane: Lane;
  applicationId: string;
  body: string;
  url: string;
  /** Encrypted signing secrets: the current secret first, then former secrets that are still valid. */
  encryptedSecrets: string[];
  /** Number of this attempt, counted from 1 across all rounds of the delivery. */
  attemptNumber: number;
  /** Number of this attempt, counted from 1 in the current round. */
  attempts: number;
}

/** State of an endpoint after a claim. */
export interface ClaimedEndpoint {
  endpoint: DueEndpoint;
  /** True if the last attempt at the endpoint failed. */
  isFailing: boolean;
  /** True if the claim filled all available slots of the endpoint, so that more deliveries may be due. */
  hasMore: boolean;
}

interface EndpointRow {
  /** Position of the endpoint in the claim, from 1. */
  ordinal: number;
  failing: boolean;
  /** Number of slots that the endpoint may use. Null if deliveries may not be sent to the endpoint. */
  capacity: number | null;
}

interface DeliveryRow extends Omit<ClaimedDelivery, "lane" | "encryptedSecrets"> {
  encryptedSecret: string | null;
  formerSecrets: FormerSecret[] | null;
}

/** Row of an endpoint and one of its claimed deliveries. An endpoint without claimed deliveries has one row. */
type ClaimRow = EndpointRow & (DeliveryRow | { deliveryId: null });

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
 * Chooses deliveries, leases them, and records each attempt with an unknown outcome, all in one transaction. Only
 * attempts with a recorded outcome count towards the retry schedule. An inactive endpoint gets no slots, and a failing
 * endpoint occupies at most one slot.
 *
 * The array parameters are wrapped in sub-selects, so that Postgres uses one plan for arrays of any length. The ids of
 * the chosen deliveries form an array instead of a join, because Postgres may plan the statement while the table of
 * pending deliveries is empty. With a join, it could then read the whole table.
 */
const CLAIM_DUE_DELIVERIES_SQL = `
  WITH allotted AS MATERIALIZED (
    SELECT x.ordinal::integer, x.lane, x.endpoint_id, a.url, a.branch_ids, f.endpoint_id IS NOT NULL AS failing,
           CASE WHEN a.endpoint_id IS NULL THEN NULL
                WHEN f.endpoint_id IS NULL THEN x.slots
                ELSE LEAST(x.slots, GREATEST(1 - x.busy, 0)) END AS capacity
      FROM unnest((SELECT $4::text[]), (SELECT $5::uuid[]), (SELECT $6::integer[]), (SELECT $7::integer[]))
           WITH ORDINALITY AS x (lane, endpoint_id, slots, busy, ordinal)
      LEFT JOIN LATERAL (${buildActiveEndpointSql("x.endpoint_id")}) a ON ${READ_MODELS_CURRENT_SQL}
      LEFT JOIN webhooks.failing_endpoint f ON f.endpoint_id = x.endpoint_id
  ),
  chosen AS MATERIALIZED (${buildDueDeliveriesSql("first")} UNION ALL ${buildDueDeliveriesSql("retry")}),
  leased AS (
    UPDATE webhooks.pending_delivery p
       SET attempt_count = p.attempt_count + 1, lease_expires_at = $2
     WHERE p.delivery_id = ANY (ARRAY(SELECT delivery_id FROM chosen))
    RETURNING p.delivery_id, p.endpoint_id, p.body, p.attempt_count, p.round_attempt_count + 1 AS round_attempt,
              p.traceparent,
              CASE p.round_attempt_count WHEN 0 THEN 'first' ELSE 'retry' END AS lane
  ),
  recorded AS (
    INSERT INTO webhooks.attempt (delivery_id, number, started_at)
    SELECT delivery_id, attempt_count, $1 FROM leased
  )
  SELECT x.ordinal, x.failing, x.capacity, ${DELIVERY_ROUND_COLUMNS}, d.application_id AS "applicationId", d.body,
         x.url, d.attempt_count AS "attemptNumber", d.round_attempt AS attempts, d.traceparent, d.encrypted_secret AS "encryptedSecret",
         d.former_secrets AS "formerSecrets"
    FROM allotted x
    LEFT JOIN (SELECT leased.*, d.application_id, d.clinic_id, d.environment, d.cause_id, d.correlation_id,
                      d.event_stream, d.event_revision, s.encrypted_secret, s.former_secrets
                 FROM leased
                 JOIN webhooks.delivery d USING (delivery_id)
                 LEFT JOIN ${READ_MODEL_SCHEMA}.webhook_secret s ON s.endpoint_id = leased.endpoint_id) d
      ON d.endpoint_id = x.endpoint_id AND d.lane = x.lane`;

/**
 * Claims and leases due deliveries, at most one for each granted slot.
 *
 * @param excludedDeliveryIds ids of deliveries that this process still reserves, although their lease has expired
 * @param now milliseconds since 1970
 * @param leaseMs length of the lease in milliseconds, longer than any attempt
 */
export async function claimDueDeliveries(
  pool: pg.Pool,
  grants: readonly SlotGrant[],
  excludedDeliveryIds: readonly string[],
  now: number,
  leaseMs: number,
): Promise<{ deliveries: ClaimedDelivery[]; endpoints: ClaimedEndpoint[] }> {
  const { rows } = await pool.query<ClaimRow>({
    name: "claim due deliveries",
    text: CLAIM_DUE_DELIVERIES_SQL,
    values: [
      toInstant(now),
      toInstant(now + leaseMs),
      excludedDeliveryIds,
      grants.map(({ lane }) => lane),
      grants.map(({ endpointId }) => endpointId),
      grants.map(({ slotCount }) => slotCount),
      grants.map(({ occupiedSlots }) => occupiedSlots),
    ],
  });
  const deliveries: ClaimedDelivery[] = [];
  const countsByOrdinal = new Map<number, EndpointRow & { count: number }>();
  for (const row of rows) {
    const { ordinal, failing, capacity, ...delivery } = row;
    const lane = grants[ordinal - 1]?.lane;
    const countBefore = countsByOrdinal.get(ordinal)?.count ?? 0;
    const hasDelivery = delivery.deliveryId !== null && lane !== undefined;
    if (hasDelivery) deliveries.push(toClaimedDelivery(delivery, lane, now));
    countsByOrdinal.set(ordinal, { ordinal, failing, capacity, count: countBefore + (hasDelivery ? 1 : 0) });
  }
  const endpoints = grants.flatMap((endpoint, index): ClaimedEndpoint[] => {
    const row = countsByOrdinal.get(index + 1);
    if (!row) return [];
    return [{ endpoint, isFailing: row.failing, hasMore: row.capacity !== null && row.count >= row.capacity }];
  });
  return { deliveries, endpoints };
}

function toClaimedDelivery(row: DeliveryRow, lane: Lane, now: number): ClaimedDelivery {
  const { encryptedSecret: currentSecret, formerSecrets, ...delivery } = row;
  const unexpiredSecrets = (formerSecrets ?? []).filter(({ expiresAt }) => Date.parse(expiresAt) > now);
  const secrets = [currentSecret, ...unexpiredSecrets.map(({ encryptedSecret }) => encryptedSecret)];
  return { ...delivery, lane, encryptedSecrets: secrets.filter((secret) => secret !== null) };
}
