import type pg from "pg";
import { z } from "zod";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { exactlyOne, getCategoryName, streamField } from "./query-fields.ts";

/** Selects all deliveries of an appointment or endpoint (`stream`), or a single delivery by its id (`delivery`). */
export const deliveriesQuerySchema = z
  .strictObject({ stream: streamField.optional(), delivery: uuid.optional() })
  .refine(...exactlyOne("stream", "delivery"));
type DeliveriesQuery = z.output<typeof deliveriesQuerySchema>;

interface AuditedDelivery {
  clinicId: string | null;
  /** Null if the delivered event is not about an appointment. */
  appointmentId: string | null;
}

const MAX_DELIVERIES = 200;
const MAX_ATTEMPTS_PER_DELIVERY = 50;

const attemptsSql = `SELECT json_agg(json_build_object('number', t.number, 'startedAt', rfc3339(t.started_at),
    'durationMs', t.duration_ms, 'statusCode', t.status_code, 'error', t.error, 'answer', t.answer) ORDER BY t.number)
  FROM (SELECT * FROM webhooks.attempt WHERE delivery_id = d.delivery_id
    ORDER BY number DESC LIMIT ${MAX_ATTEMPTS_PER_DELIVERY}) t`;

/** Selects the start time of a delivery's last attempt. The delivery's own row is updated only when an attempt ends. */
const lastStartSql =
  "SELECT started_at FROM webhooks.attempt WHERE delivery_id = d.delivery_id ORDER BY number DESC LIMIT 1";

/** Parameters of the SQL: $1 is the value in the condition, $2 the array of permitted clinics (null for all). */
const createDeliveriesSql = (condition: string) => `SELECT d.delivery_id AS id, d.endpoint_id AS "endpointId",
    d.clinic_id AS "clinicId", d.application_id AS "applicationId", d.event_id AS "eventId", d.event_type AS type,
    d.event_position::text AS position, d.appointment_id AS "appointmentId", d.status, d.correlation_id AS "correlationId",
    rfc3339(d.next_attempt_at) AS "nextAttemptAt", rfc3339(d.created_at) AS "createdAt",
    rfc3339(GREATEST(d.updated_at, (${lastStartSql}))) AS "updatedAt", coalesce((${attemptsSql}), '[]') AS attempts
  FROM webhooks.delivery d
  WHERE ${condition} AND ($2::uuid[] IS NULL OR d.clinic_id = ANY ($2::uuid[]))
  ORDER BY d.created_at DESC, d.delivery_id LIMIT ${MAX_DELIVERIES}`;

const statements = {
  appointment: { name: "deliveries of an appointment", text: createDeliveriesSql("d.appointment_id = $1::uuid") },
  webhookEndpoint: { name: "deliveries of an endpoint", text: createDeliveriesSql("d.endpoint_id = $1::uuid") },
  delivery: { name: "a delivery", text: createDeliveriesSql("d.delivery_id = $1::uuid") },
};

/**
 * Finds the deliveries that match a query and belong to the permitted clinics, with their attempts. Sorts the newest
 * delivery first.
 *
 * @param clinicIds ids of the permitted clinics; null for all clinics
 * @throws {Error} the error of the database
 */
export async function findDeliveries(
  pool: pg.Pool,
  query: DeliveriesQuery,
  clinicIds: readonly string[] | null,
): Promise<AuditedDelivery[]> {
  const selection = selectStatement(query);
  if (!selection) return [];
  const { statement, value } = selection;
  return (await pool.query<AuditedDelivery>({ ...statement, values: [value, clinicIds] })).rows;
}

/** Returns the SQL statement and its value for a query. Returns undefined for a stream that cannot have deliveries. */
function selectStatement({ stream = "", delivery }: DeliveriesQuery) {
  if (delivery !== undefined) return { statement: statements.delivery, value: delivery };
  const category = getCategoryName(stream);
  const { data: id } = uuid.safeParse(stream.slice(category.length + 1));
  if (id === undefined || (category !== "appointment" && category !== "webhookEndpoint")) return undefined;
  return { statement: statements[category], value: id };
}

/**
 * Returns the ids of the appointments and clinics of deliveries, without duplicates. They are recorded with the access,
 * because the event log does not show which records a delivery contains.
 */
export function describeDelivered(deliveries: readonly AuditedDelivery[]): { found: string[]; clinicIds: string[] } {
  const found = deliveries.flatMap(({ appointmentId }) => appointmentId ?? []);
  const clinicIds = deliveries.flatMap(({ clinicId }) => clinicId ?? []);
  return { found: [...new Set(found)], clinicIds: [...new Set(clinicIds)] };
}
