import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { type DeliveryRound, deliverySkipped, keepFacts } from "../outbox/facts.ts";
import { inTransaction } from "../outbox/transaction.ts";
import { endpointsWithPending, IN_LANE, READ_MODELS_ARE_CURRENT } from "../scheduling/due.ts";

const MAX_BATCH = 500;

/** Time after which a delivery is skipped if its origin is still not approved. Milliseconds. */
const MAX_HOLD_MS = 30 * 24 * 60 * 60 * 1_000;

/** Result of closing one batch. */
export interface Closed {
  /** Number of facts that were added to the outbox. */
  facts: number;
  /** True if more deliveries may need to be closed. */
  more: boolean;
}

/**
 * Closes a batch of pending deliveries that may no longer be sent. Deliveries to a disabled endpoint are skipped. Deliveries
 * are cancelled if the endpoint, the application, the installation or the access to the branch was revoked. Deliveries with
 * an attempt in progress stay pending.
 *
 * @param now milliseconds since 1970
 */
export function closeUnsendable(pool: pg.Pool, now: number): Promise<Closed> {
  return close(pool, { name: "close unsendable deliveries", text: CLOSE, values: [toInstant(now)] }, now);
}

/**
 * Skips a batch of pending deliveries that have been due for 30 days and whose origin is not approved. Skipped deliveries
 * can be replayed.
 *
 * @param now milliseconds since 1970
 */
export function skipLongHeld(pool: pg.Pool, now: number): Promise<Closed> {
  const values = [toInstant(now), toInstant(now - MAX_HOLD_MS)];
  return close(pool, { name: "skip held deliveries", text: SKIP_HELD, values }, now);
}

function close(pool: pg.Pool, statement: pg.QueryConfig, now: number): Promise<Closed> {
  return inTransaction(pool, async (client) => {
    const { rows } = await client.query<DeliveryRow>(statement);
    const facts = rows
      .filter(({ status }) => status === "skipped")
      .map((row) => deliverySkipped(toRound(row), now));
    await keepFacts(client, facts);
    return { facts: facts.length, more: rows.length === MAX_BATCH };
  });
}

interface DeliveryRow {
  delivery_id: string;
  endpoint_id: string;
  clinic_id: string;
  environment: "sandbox" | "production";
  cause_id: string;
  correlation_id: string;
  event_stream: string;
  event_revision: bigint;
  status: "skipped" | "cancelled";
}

const CLOSE_CHOSEN = `
  UPDATE webhooks.delivery d
     SET status = chosen.status, next_attempt_at = NULL, lease_expires_at = NULL, updated_at = $1
    FROM chosen
   WHERE d.delivery_id = chosen.delivery_id
  RETURNING d.delivery_id, d.endpoint_id, d.clinic_id, d.environment, d.cause_id, d.correlation_id, d.status,
            d.event_stream, d.event_revision`;

const CLOSE = `
  WITH RECURSIVE ${endpointsWithPending("first_endpoints", IN_LANE.first)},
  ${endpointsWithPending("retry_endpoints", IN_LANE.retry)},
  access AS MATERIALIZED (
    SELECT e.endpoint_id, i.branch_ids,
           e.status = 'revoked' OR a.revoked OR i.status <> 'approved' AS revoked, e.status = 'disabled' AS disabled
      FROM read_model.webhook_endpoint e
      JOIN read_model.installation i ON i.application_id = e.application_id AND i.clinic_id = e.clinic_id
      JOIN read_model.partner_application a ON a.application_id = e.application_id
     WHERE e.endpoint_id IN (SELECT endpoint_id FROM first_endpoints UNION SELECT endpoint_id FROM retry_endpoints)
       AND ${READ_MODELS_ARE_CURRENT}
  ),
  chosen AS MATERIALIZED (${chosenIn(
    (lane) => `
    SELECT d.delivery_id, d.status
      FROM access s
     CROSS JOIN LATERAL (
       SELECT delivery_id, CASE WHEN s.disabled AND NOT s.revoked THEN 'skipped' ELSE 'cancelled' END AS status
         FROM webhooks.delivery
        WHERE endpoint_id = s.endpoint_id AND status = 'pending' AND ${lane}
          AND (lease_expires_at IS NULL OR lease_expires_at <= $1)
          AND (s.revoked OR s.disabled OR NOT (s.branch_ids ? branch_id::text))
        LIMIT ${MAX_BATCH}
          FOR UPDATE SKIP LOCKED) d
     WHERE s.revoked OR s.disabled OR s.branch_ids IS NOT NULL`,
  )}
  ) ${CLOSE_CHOSEN}`;

const SKIP_HELD = `
  WITH chosen AS MATERIALIZED (${chosenIn(
    (lane) => `
    SELECT d.delivery_id, 'skipped' AS status
      FROM read_model.webhook_endpoint e
      JOIN read_model.partner_application a ON a.application_id = e.application_id
     CROSS JOIN LATERAL (
       SELECT delivery_id
         FROM webhooks.delivery
        WHERE endpoint_id = e.endpoint_id AND status = 'pending' AND ${lane} AND due_at < $2
        LIMIT ${MAX_BATCH}
          FOR UPDATE SKIP LOCKED) d
     WHERE e.environment = 'production' AND NOT a.webhook_origins ? e.origin AND ${READ_MODELS_ARE_CURRENT}`,
  )}
  ) ${CLOSE_CHOSEN}`;

/**
 * Returns SQL that selects one batch of deliveries from both lanes. A query for each lane is necessary, because the indexes
 * of pending deliveries are separate for each lane.
 *
 * @param select returns the query for one lane, given the SQL condition of the lane
 */
function chosenIn(select: (lane: string) => string): string {
  const lanes = Object.values(IN_LANE).map(select);
  return `SELECT * FROM (${lanes.join(" UNION ALL ")}) lanes LIMIT ${MAX_BATCH}`;
}

function toRound(row: DeliveryRow): DeliveryRound {
  return {
    deliveryId: row.delivery_id,
    endpointId: row.endpoint_id,
    clinicId: row.clinic_id,
    environment: row.environment,
    causeId: row.cause_id,
    correlationId: row.correlation_id,
    source: { stream: row.event_stream, revision: row.event_revision },
  };
}
