import type pg from "pg";
import { z } from "zod";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { getCategoryName, streamField } from "./query-fields.ts";

/** Query for deliveries. The stream is that of a delivered event, of an endpoint, or of a delivery. */
export const deliveriesQuerySchema = z.strictObject({ stream: streamField });

const MAX_DELIVERIES = 200;
const MAX_ATTEMPTS_PER_DELIVERY = 50;

const attemptsSql = `SELECT json_agg(json_build_object('number', t.number, 'startedAt', rfc3339(t.started_at),
    'durationMs', t.duration_ms, 'statusCode', t.status_code, 'error', t.error, 'answer', t.answer) ORDER BY t.number)
  FROM (SELECT * FROM webhooks.attempt WHERE delivery_id = d.delivery_id
    ORDER BY number DESC LIMIT ${MAX_ATTEMPTS_PER_DELIVERY}) t`;

/** The start of an attempt updates a delivery, but not its row. */
const lastStartSql =
  "SELECT started_at FROM webhooks.attempt WHERE delivery_id = d.delivery_id ORDER BY number DESC LIMIT 1";

/** Parameters of the SQL: $1 is the value in the condition, $2 the array of permitted clinics (null for all). */
const createDeliveriesSql = (condition: string) => `SELECT d.delivery_id AS id, d.endpoint_id AS "endpointId",
    d.clinic_id AS "clinicId", d.application_id AS "applicationId", d.event_id AS "eventId", d.event_type AS type,
    d.event_stream AS stream, d.event_revision::float8 AS revision, d.status, d.correlation_id AS "correlationId",
    rfc3339(d.next_attempt_at) AS "nextAttemptAt", rfc3339(d.created_at) AS "createdAt",
    rfc3339(GREATEST(d.updated_at, (${lastStartSql}))) AS "updatedAt", coalesce((${attemptsSql}), '[]') AS attempts
  FROM webhooks.delivery d
  WHERE ${condition} AND ($2::uuid[] IS NULL OR d.clinic_id = ANY ($2::uuid[]))
  ORDER BY d.created_at DESC, d.delivery_id LIMIT ${MAX_DELIVERIES}`;

const statements = {
  stream: { name: "deliveries of a stream", text: createDeliveriesSql("d.event_stream = $1") },
  webhookEndpoint: { name: "deliveries of an endpoint", text: createDeliveriesSql("d.endpoint_id = $1::uuid") },
  webhookDelivery: { name: "a delivery", text: createDeliveriesSql("d.delivery_id = $1::uuid") },
};

/**
 * Finds the deliveries of a stream that belong to the permitted clinics. The newest delivery comes first. Each delivery
 * includes its attempts.
 *
 * @param stream stream of the delivered event, of an endpoint, or of a delivery
 * @param clinicIds ids of the permitted clinics; null for all clinics
 * @throws {Error} the error of the database
 */
export async function findDeliveries(
  pool: pg.Pool,
  stream: string,
  clinicIds: readonly string[] | null,
): Promise<object[]> {
  const category = getCategoryName(stream);
  if (category !== "webhookEndpoint" && category !== "webhookDelivery") {
    return (await pool.query<object>({ ...statements.stream, values: [stream, clinicIds] })).rows;
  }
  const idResult = uuid.safeParse(stream.slice(category.length + 1));
  if (!idResult.success) return [];
  return (await pool.query<object>({ ...statements[category], values: [idResult.data, clinicIds] })).rows;
}
