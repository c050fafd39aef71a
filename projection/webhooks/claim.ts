import type pg from "pg";
import { toInstant } from "../../shared/time/rfc3339.ts";
import type { FormerSecret } from "../read-models/webhook-secrets.ts";
import { ACTIVE_ENDPOINTS, endpointsWithPending, READ_MODELS_ARE_CURRENT } from "./due.ts";
import type { DeliveryRound } from "./facts.ts";

/** First attempts and retries have room of their own, so that neither holds up the other. */
export type Lane = "first" | "retry";

/** A delivery that this process may attempt, once, until the lease expires. Its attempt is on record already. */
export interface Claimed extends DeliveryRound {
  lane: Lane;
  applicationId: string;
  body: string;
  url: string;
  /** The current one first, then former ones that still sign. */
  encryptedSecrets: string[];
  /** Of the attempt, from 1 over all rounds. */
  number: number;
  /** Of the attempt within the round. */
  attempts: number;
}

/** What is under way already, and how much more there may be. */
export interface Room {
  lanes: Record<Lane, { room: number; perEndpoint: number; busy: ReadonlyMap<string, number> }>;
  /** Deliveries that this process has not let go of. */
  held: readonly string[];
}

interface ClaimedRow {
  lane: Lane;
  delivery_id: string;
  endpoint_id: string;
  application_id: string;
  clinic_id: string;
  environment: "sandbox" | "production";
  cause_id: string;
  correlation_id: string;
  event_stream: string;
  event_revision: bigint;
  body: string;
  url: string;
  encrypted_secret: string | null;
  former_secrets: FormerSecret[] | null;
  attempt_count: number;
  round_attempt_count: number;
}

/** Placeholders of a lane's values in the statement. */
type LaneParameters = Record<"busyIds" | "busyCounts" | "room" | "perEndpoint", string>;

/**
 * Due deliveries of one lane: of each endpoint, taken in random order, the longest due, as many as it has room for.
 * No more than those are locked. An endpoint that fails has room for one, so that those that hang cannot take all the
 * room there is.
 */
function laneQuery(lane: Lane, condition: string, parameters: LaneParameters): string {
  const { busyIds, busyCounts, room, perEndpoint } = parameters;
  return `
    (SELECT '${lane}' AS lane, d.*, e.url
       FROM (SELECT a.endpoint_id, a.url, a.branch_ids,
                    CASE WHEN f.endpoint_id IS NULL THEN ${perEndpoint}::integer ELSE 1 END - COALESCE(b.count, 0) AS room
               FROM ${lane}_endpoints x
               JOIN active a ON a.endpoint_id = x.endpoint_id
               LEFT JOIN webhooks.failing_endpoint f ON f.endpoint_id = x.endpoint_id
               LEFT JOIN unnest(${busyIds}::uuid[], ${busyCounts}::integer[]) b (endpoint_id, count)
                      ON b.endpoint_id = x.endpoint_id
              ORDER BY random()) e
      CROSS JOIN LATERAL (
        SELECT delivery_id, endpoint_id, application_id, clinic_id, environment, cause_id, correlation_id,
               event_stream, event_revision, body
          FROM webhooks.delivery
         WHERE endpoint_id = e.endpoint_id AND status = 'pending' AND ${condition} AND due_at <= $1
           AND delivery_id <> ALL ($3::uuid[])
           AND (e.branch_ids IS NULL OR branch_id IS NULL OR e.branch_ids ? branch_id::text)
         ORDER BY due_at
         LIMIT GREATEST(e.room, 0)
           FOR UPDATE SKIP LOCKED) d
      WHERE e.room > 0
      LIMIT ${room}::integer)`;
}

const FIRST = "round_attempt_count = 0";
const RETRY = "round_attempt_count > 0";

/**
 * One statement, so one transaction: choose, lease, and put each attempt on record with its outcome unknown, before
 * anything is sent. A lease that was lost with its process is not counted against the schedule.
 */
const CLAIM = `
  WITH RECURSIVE ${endpointsWithPending("first_endpoints", FIRST)},
  ${endpointsWithPending("retry_endpoints", RETRY)},
  active AS MATERIALIZED (
    SELECT * FROM (${ACTIVE_ENDPOINTS}) a
     WHERE a.endpoint_id IN (SELECT endpoint_id FROM first_endpoints UNION SELECT endpoint_id FROM retry_endpoints)
       AND ${READ_MODELS_ARE_CURRENT}
  ),
  chosen AS MATERIALIZED (
    ${laneQuery("first", FIRST, { busyIds: "$4", busyCounts: "$5", room: "$6", perEndpoint: "$7" })}
    UNION ALL
    ${laneQuery("retry", RETRY, { busyIds: "$8", busyCounts: "$9", room: "$10", perEndpoint: "$11" })}
  ),
  leased AS (
    UPDATE webhooks.delivery d
       SET attempt_count = d.attempt_count + 1,
           round_attempt_count = d.round_attempt_count + CASE WHEN d.lease_expires_at IS NULL THEN 1 ELSE 0 END,
           lease_expires_at = $2, updated_at = $1
      FROM chosen
     WHERE d.delivery_id = chosen.delivery_id
    RETURNING d.delivery_id, d.attempt_count, d.round_attempt_count
  ),
  recorded AS (
    INSERT INTO webhooks.attempt (delivery_id, number, started_at)
    SELECT delivery_id, attempt_count, $1 FROM leased
  )
  SELECT chosen.*, leased.attempt_count, leased.round_attempt_count, s.encrypted_secret, s.former_secrets
    FROM chosen JOIN leased USING (delivery_id)
    LEFT JOIN read_model.webhook_secret s ON s.endpoint_id = chosen.endpoint_id`;

/**
 * Claims due deliveries of active endpoints, under a lease.
 *
 * @param now milliseconds since 1970
 * @param leaseMs how long nobody else may attempt them; longer than any attempt takes
 */
export async function claimDue(pool: pg.Pool, room: Room, now: number, leaseMs: number): Promise<Claimed[]> {
  const lane = ({ busy, room, perEndpoint }: Room["lanes"][Lane]) => [
    [...busy.keys()],
    [...busy.values()],
    room,
    perEndpoint,
  ];
  const { rows } = await pool.query<ClaimedRow>({
    name: "claim due deliveries",
    text: CLAIM,
    values: [
      toInstant(now),
      toInstant(now + leaseMs),
      room.held,
      ...lane(room.lanes.first),
      ...lane(room.lanes.retry),
    ],
  });
  return rows.map((row) => toClaimed(row, now));
}

function toClaimed(row: ClaimedRow, now: number): Claimed {
  const former = (row.former_secrets ?? []).filter(({ expiresAt }) => Date.parse(expiresAt) > now);
  return {
    lane: row.lane,
    deliveryId: row.delivery_id,
    endpointId: row.endpoint_id,
    applicationId: row.application_id,
    clinicId: row.clinic_id,
    environment: row.environment,
    causeId: row.cause_id,
    correlationId: row.correlation_id,
    source: { stream: row.event_stream, revision: row.event_revision },
    body: row.body,
    url: row.url,
    encryptedSecrets: [row.encrypted_secret, ...former.map(({ encryptedSecret }) => encryptedSecret)].filter(
      (secret) => secret !== null,
    ),
    number: row.attempt_count,
    attempts: row.round_attempt_count,
  };
}
