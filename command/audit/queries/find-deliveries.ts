import type pg from "pg";
import { z } from "zod";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { categoryOf, streamField } from "./query-fields.ts";

/** Query by stream: of a delivered event, of an endpoint, or of a delivery. */
export const deliveriesQuery = z.strictObject({ stream: streamField });

/** A delivery with its attempts, without the body. */
export interface DeliveryRow {
  id: string;
  endpointId: string;
  clinicId: string;
  applicationId: string;
  eventId: string;
  type: string;
  stream: string;
  revision: number;
  status: string;
  correlationId: string;
  nextAttemptAt: string | null;
  createdAt: string;
  updatedAt: string;
  attempts: {
    number: number;
    startedAt: string;
    durationMs: number | null;
    statusCode: number | null;
    error: string | null;
    answer: string | null;
  }[];
}

/** Maximum number of deliveries, and of attempts of each; the newest are returned. */
const MAX_DELIVERIES = 200;
const MAX_ATTEMPTS = 50;

const attempts = `SELECT json_agg(json_build_object('number', t.number, 'startedAt', rfc3339(t.started_at),
    'durationMs', t.duration_ms, 'statusCode', t.status_code, 'error', t.error, 'answer', t.answer) ORDER BY t.number)
  FROM (SELECT * FROM webhooks.attempt WHERE delivery_id = d.delivery_id
    ORDER BY number DESC LIMIT ${MAX_ATTEMPTS}) t`;

/** $1: the value; $2: the clinics, null for all. */
const select = (where: string) => `SELECT d.delivery_id AS id, d.endpoint_id AS "endpointId",
    d.clinic_id AS "clinicId", d.application_id AS "applicationId", d.event_id AS "eventId", d.event_type AS type,
    d.event_stream AS stream, d.event_revision::float8 AS revision, d.status, d.correlation_id AS "correlationId",
    rfc3339(d.next_attempt_at) AS "nextAttemptAt", rfc3339(d.created_at) AS "createdAt",
    rfc3339(d.updated_at) AS "updatedAt", coalesce((${attempts}), '[]') AS attempts
  FROM webhooks.delivery d
  WHERE ${where} AND ($2::uuid[] IS NULL OR d.clinic_id = ANY ($2::uuid[]))
  ORDER BY d.created_at DESC, d.delivery_id LIMIT ${MAX_DELIVERIES}`;

const statements = {
  stream: { name: "deliveries of a stream", text: select("d.event_stream = $1") },
  webhookEndpoint: { name: "deliveries of an endpoint", text: select("d.endpoint_id = $1::uuid") },
  webhookDelivery: { name: "a delivery", text: select("d.delivery_id = $1::uuid") },
};

/**
 * Finds the deliveries of a stream, newest first, within the permitted clinics.
 *
 * @param clinicIds the permitted clinics; null for all
 * @throws the error of the database
 */
export async function findDeliveries(
  pool: pg.Pool,
  stream: string,
  clinicIds: readonly string[] | null,
): Promise<DeliveryRow[]> {
  const category = categoryOf(stream);
  if (category !== "webhookEndpoint" && category !== "webhookDelivery") {
    return (await pool.query<DeliveryRow>({ ...statements.stream, values: [stream, clinicIds] })).rows;
  }
  const id = uuid.safeParse(stream.slice(category.length + 1));
  if (!id.success) return [];
  return (await pool.query<DeliveryRow>({ ...statements[category], values: [id.data, clinicIds] })).rows;
}
