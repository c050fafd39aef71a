import type pg from "pg";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import type { EncryptedHeader, WebhookBodyFormat } from "../../../shared/domain/events/partner.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { buildIsDeliveryVisibleSql } from "../../../shared/partner-api/animal-access.ts";
import {
  PUBLIC_EVENT_JSON_SQL,
  type PublicEventRow,
  renderPublicEvent,
} from "../../../shared/partner-api/webhook-body.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { FormerSecret } from "../../read-models/webhook-endpoints.ts";
import { READ_MODELS_CURRENT_SQL } from "../match/revocations.ts";
import { buildActiveEndpointSql, IS_DUE_SQL, PENDING_CONDITIONS } from "../schedule/due.ts";
import type { DueEndpoint, Grant } from "../schedule/schedule.ts";

/** A leased delivery that this process may attempt once before the lease expires. The attempt is already recorded. */
export interface ClaimedDelivery {
  deliveryId: string;
  endpointId: string;
  applicationId: string;
  environment: Environment;
  /** Id of the event that caused the delivery: the domain event or, after a replay, the last replay request. */
  causeId: string;
  correlationId: string;
  traceparent: string | null;
  /** Undefined if the read models lack the event. */
  body: string | undefined;
  bodyFormat: WebhookBodyFormat;
  url: string;
  /** Encrypted signing secrets: the current secret first, then former secrets that are still valid. */
  encryptedSecrets: string[];
  encryptedHeaders: EncryptedHeader[];
  hasAsymmetricSignature: boolean;
  /** Number of this attempt, counted from 1, also across replays. */
  attemptNumber: number;
  /** Milliseconds since 1970. */
  startedAt: number;
  /** Number of failed attempts since the delivery was created or last replayed. */
  failedAttemptCount: number;
  /** Appointment id if the endpoint receives the events of each appointment in order; otherwise null. */
  orderingKey: string | null;
}

interface ClaimedEndpoint {
  endpoint: DueEndpoint;
  isFailing: boolean;
  /** True if the claim found as many deliveries as permitted, so that more may be due. */
  hasMore: boolean;
  /** Time until the rate limit permits the next attempt. 0 if it permits one now. */
  pauseMs: number;
}

interface EndpointRow {
  ordinal: number;
  failing: boolean;
  /** Maximum number of deliveries to claim. Null if deliveries may not be sent to the endpoint. */
  capacity: number | null;
  pauseMs: number;
}

interface DeliveryRow extends Omit<ClaimedDelivery, "startedAt" | "body" | "encryptedSecrets" | "encryptedHeaders"> {
  event: PublicEventRow | null;
  encryptedSecret: string | null;
  formerSecrets: FormerSecret[] | null;
  encryptedHeaders: EncryptedHeader[] | null;
}

/** One row for each claimed delivery, or a single row for an endpoint without claimed deliveries. */
type ClaimRow = EndpointRow & (DeliveryRow | { deliveryId: null });

/**
 * Claims and leases due deliveries, at most as many as the schedule has granted.
 *
 * @param excludedDeliveryIds ids of deliveries that this process still reserves, although their lease may have ended
 * @param lease `senderId`: owner of the leases, without whose row in `webhooks.sender` nothing is claimed; `leaseMs`:
 *   duration, which must exceed the longest attempt
 * @param now milliseconds since 1970
 */
export async function claimDueDeliveries(
  db: pg.Pool | pg.ClientBase,
  grants: readonly Grant[],
  excludedDeliveryIds: readonly string[],
  { senderId, leaseMs }: { senderId: string; leaseMs: number },
  now: number,
): Promise<{ deliveries: ClaimedDelivery[]; endpoints: ClaimedEndpoint[] }> {
  const values = [
    toInstant(now),
    toInstant(now + leaseMs),
    excludedDeliveryIds,
    grants.map(({ endpointId }) => endpointId),
    grants.map(({ count }) => count),
    grants.map(({ inProgress }) => inProgress),
    senderId,
  ];
  const { rows } = await db.query<ClaimRow>({ name: "claim due deliveries", text: CLAIM_SQL, values });
  return toClaim(rows, grants, now);
}

function toClaim(rows: readonly ClaimRow[], grants: readonly Grant[], now: number) {
  const deliveries: ClaimedDelivery[] = [];
  const countsByOrdinal = new Map<number, EndpointRow & { count: number }>();
  for (const row of rows) {
    const { ordinal, failing, capacity, pauseMs, ...delivery } = row;
    const countBefore = countsByOrdinal.get(ordinal)?.count ?? 0;
    const hasDelivery = delivery.deliveryId !== null;
    if (hasDelivery) deliveries.push(toClaimedDelivery(delivery, now));
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

function toClaimedDelivery(row: DeliveryRow, now: number): ClaimedDelivery {
  const { event, encryptedSecret: currentSecret, formerSecrets, encryptedHeaders, ...delivery } = row;
  const body = event ? JSON.stringify(renderPublicEvent(event, delivery.environment)) : undefined;
  const unexpiredSecrets = (formerSecrets ?? []).filter(({ expiresAt }) => Date.parse(expiresAt) > now);
  const secrets = [currentSecret, ...unexpiredSecrets.map(({ encryptedSecret }) => encryptedSecret)];
  const encryptedSecrets = secrets.filter((secret) => secret !== null);
  return { ...delivery, body, startedAt: now, encryptedSecrets, encryptedHeaders: encryptedHeaders ?? [] };
}

/**
 * SQL expression for the number of deliveries to claim for the endpoint `a`. Null if the endpoint is inactive. A
 * failing endpoint, which has a row in `f`, gets one attempt at a time.
 */
const CAPACITY_SQL = `
  CASE WHEN a.endpoint_id IS NULL THEN NULL
       WHEN f.endpoint_id IS NULL THEN x.granted
       ELSE LEAST(x.granted, GREATEST(1 - x.in_progress, 0)) END`;

const CANDIDATE_SQL = `
  candidate AS MATERIALIZED (
    SELECT x.ordinal::integer, x.endpoint_id, a.url, a.body_format, a.branch_ids, a.animal_access, a.application_id,
           a.rate_limit_per_second AS rate_limit, f.endpoint_id IS NOT NULL AS failing, ${CAPACITY_SQL} AS capacity
      FROM unnest((SELECT $4::uuid[]), (SELECT $5::integer[]), (SELECT $6::integer[]))
           WITH ORDINALITY AS x (endpoint_id, granted, in_progress, ordinal)
      LEFT JOIN LATERAL (${buildActiveEndpointSql("x.endpoint_id")}) a ON ${READ_MODELS_CURRENT_SQL}
      LEFT JOIN webhooks.failing_endpoint f ON f.endpoint_id = x.endpoint_id
  )`;

/**
 * Seconds by which an attempt may start earlier than an evenly spaced rate limit permits. Without this tolerance,
 * delays between claims would make the endpoint slower than its limit. In any second, an endpoint therefore gets at
 * most a tenth more attempts than its limit, plus one.
 */
const BURST_TOLERANCE_S = 0.1;

/** Locks the rate limits of the candidates. Skips rate limits that another process has locked, so claims never wait. */
const RATE_LIMIT_SQL = `
  locked AS MATERIALIZED (
    SELECT endpoint_id, next_start_at FROM webhooks.endpoint_rate_limit
     WHERE endpoint_id = ANY (ARRAY(SELECT endpoint_id FROM candidate WHERE rate_limit IS NOT NULL))
       FOR UPDATE SKIP LOCKED
  )`;

/**
 * SQL expression for the number of attempts at the endpoint `c` that may start now. The generic cell rate algorithm
 * spaces attempts evenly. No attempt may start while another process holds the lock on the endpoint's rate limit.
 */
const PERMITTED_STARTS_SQL = `
  CASE WHEN locked.endpoint_id IS NULL AND known.endpoint_id IS NOT NULL THEN 0
       ELSE GREATEST(0, 1 + floor(c.rate_limit * (${BURST_TOLERANCE_S}
              - GREATEST(0, COALESCE(extract(epoch FROM locked.next_start_at - now())::float8, 0)))))::integer END`;

/** Limits the deliveries of each endpoint to the number that its rate limit permits now. */
const ALLOTTED_SQL = `
  allotted AS MATERIALIZED (
    SELECT c.ordinal, c.endpoint_id, c.url, c.body_format, c.branch_ids, c.animal_access, c.application_id, c.rate_limit,
           c.failing, known.next_start_at,
           CASE WHEN c.rate_limit IS NULL THEN c.capacity ELSE LEAST(c.capacity, ${PERMITTED_STARTS_SQL}) END AS capacity
      FROM candidate c
      LEFT JOIN locked ON locked.endpoint_id = c.endpoint_id
      LEFT JOIN webhooks.endpoint_rate_limit known ON known.endpoint_id = c.endpoint_id
  )`;

/**
 * Counts the leased deliveries towards the rate limits of their endpoints. All processes insert missing rows in the order
 * of the ids, so that two claims that insert the same rows cannot deadlock.
 */
const RECORD_STARTS_SQL = `
  started AS (
    SELECT e.endpoint_id, make_interval(secs => count(*)::float8 / e.rate_limit) AS duration
      FROM leased
      JOIN allotted e USING (endpoint_id)
     WHERE e.rate_limit IS NOT NULL
     GROUP BY e.endpoint_id, e.rate_limit
  ),
  counted AS (
    INSERT INTO webhooks.endpoint_rate_limit AS r (endpoint_id, next_start_at)
    SELECT endpoint_id, now() + duration FROM started ORDER BY endpoint_id
    ON CONFLICT (endpoint_id) DO UPDATE
       SET next_start_at = GREATEST(r.next_start_at, now()) + (excluded.next_start_at - now())
    RETURNING r.endpoint_id, r.next_start_at
  )`;

/** Time until the rate limit of the endpoint `x` permits the next attempt. */
const PAUSE_MS_SQL = `
  CASE WHEN x.rate_limit IS NOT NULL THEN 1000 * GREATEST(0, COALESCE(
         extract(epoch FROM COALESCE(counted.next_start_at, x.next_start_at) - now())::float8, 0) - ${BURST_TOLERANCE_S})
       ELSE 0 END`;

/**
 * SQL condition for deliveries whose event this release's read models contain, or must contain because the deliveries
 * come from them. If it is false, a process of another release sends the delivery.
 */
const IS_EVENT_EXPECTED_SQL = `
  (EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.public_event WHERE event_id = pending_delivery.event_id)
   OR EXISTS (SELECT FROM webhooks.checkpoint WHERE name = 'deliveries' AND read_models = '${READ_MODEL_SCHEMA}'))`;

/** Selects and locks the oldest due deliveries of each endpoint. */
const CHOSEN_SQL = `
  chosen AS MATERIALIZED (
    SELECT d.delivery_id
      FROM allotted e
     CROSS JOIN LATERAL (
       SELECT delivery_id
         FROM webhooks.pending_delivery
        WHERE endpoint_id = e.endpoint_id AND ${PENDING_CONDITIONS.released} AND ${IS_DUE_SQL}
          AND delivery_id <> ALL ($3::uuid[])
          AND (e.branch_ids IS NULL OR branch_id IS NULL OR e.branch_ids ? branch_id::text)
          AND ${buildIsDeliveryVisibleSql("pending_delivery", { animalAccess: "e.animal_access", applicationId: "e.application_id" })}
          AND ${IS_EVENT_EXPECTED_SQL}
        ORDER BY next_attempt_at
        LIMIT GREATEST(e.capacity, 0)
          FOR UPDATE SKIP LOCKED) d
     WHERE e.capacity > 0
  )`;

/**
 * Chooses deliveries, leases them, and records each attempt with an unknown outcome, all in one
 * transaction. Only attempts with a recorded outcome count towards the retry schedule. An inactive endpoint gets no
 * attempts, and a failing endpoint one at a time.
 *
 * The array parameters are wrapped in sub-selects, so that Postgres uses one plan for arrays of any length. The ids of
 * the chosen deliveries form an array instead of a join, because Postgres may plan the statement while the table of
 * pending deliveries is empty. With a join, it could then read the whole table.
 */
const CLAIM_SQL = `
  WITH ${CANDIDATE_SQL},
  ${RATE_LIMIT_SQL},
  ${ALLOTTED_SQL},
  ${CHOSEN_SQL},
  leased AS (
    UPDATE webhooks.pending_delivery p
       SET attempt_count = p.attempt_count + 1, lease_expires_at = $2, sender_id = $7
     WHERE p.delivery_id = ANY (ARRAY(SELECT delivery_id FROM chosen))
       AND EXISTS (SELECT FROM webhooks.sender WHERE sender_id = $7)
    RETURNING p.delivery_id, p.endpoint_id, p.attempt_count, p.failed_attempt_count,
              p.traceparent, p.ordering_key
  ),
  recorded AS (
    INSERT INTO webhooks.attempt (delivery_id, number, started_at)
    SELECT delivery_id, attempt_count, $1 FROM leased
    ON CONFLICT DO NOTHING
  ),
  ${RECORD_STARTS_SQL}
  SELECT x.ordinal, x.failing, x.capacity, ${PAUSE_MS_SQL} AS "pauseMs",
         d.delivery_id AS "deliveryId", d.endpoint_id AS "endpointId", d.application_id AS "applicationId",
         d.environment, d.cause_id AS "causeId", d.correlation_id AS "correlationId", d.event, x.url,
         d.attempt_count AS "attemptNumber", d.failed_attempt_count AS "failedAttemptCount", d.traceparent,
         d.ordering_key AS "orderingKey", x.body_format AS "bodyFormat",
         d.encrypted_secret AS "encryptedSecret", d.former_secrets AS "formerSecrets", d.headers AS "encryptedHeaders",
         COALESCE(d.asymmetric_signature, false) AS "hasAsymmetricSignature"
    FROM allotted x
    LEFT JOIN counted ON counted.endpoint_id = x.endpoint_id
    LEFT JOIN (SELECT leased.*, d.application_id, d.environment, d.cause_id, d.correlation_id,
                      s.encrypted_secret, s.former_secrets, s.headers, s.asymmetric_signature,
                      CASE WHEN e.type IS NOT NULL THEN json_build_object(${PUBLIC_EVENT_JSON_SQL}) END AS event
                 FROM leased
                 JOIN webhooks.delivery d USING (delivery_id)
                 LEFT JOIN ${READ_MODEL_SCHEMA}.public_event e USING (event_id)
                 LEFT JOIN ${READ_MODEL_SCHEMA}.webhook_secret s ON s.endpoint_id = leased.endpoint_id) d
      ON d.endpoint_id = x.endpoint_id`;
