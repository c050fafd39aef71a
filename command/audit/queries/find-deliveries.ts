import type pg from "pg";
import { z } from "zod";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { exactlyOne, streamField } from "./query-fields.ts";

const MAX_STREAMS = 20;

const streamsField = z
  .string()
  .transform((text) => text.split(","))
  .refine(
    (names) => names.length <= MAX_STREAMS && names.every((name) => streamField.safeParse(name).success),
    `must name up to ${MAX_STREAMS} streams, such as appointment-<id>, separated by commas`,
  );

/** Query for deliveries: of appointments or endpoints (`stream`), or a single delivery by its id (`delivery`). */
export const deliveriesQuerySchema = z
  .strictObject({ stream: streamsField.optional(), delivery: uuid.optional() })
  .refine(...exactlyOne("stream", "delivery"));
type DeliveriesQuery = z.output<typeof deliveriesQuerySchema>;

interface AuditedDelivery {
  clinicId: string | null;
  /** Null if the delivered event is not about an appointment. */
  appointmentId: string | null;
}

const MAX_DELIVERIES_PER_STREAM = 200;
const MAX_ATTEMPTS_PER_DELIVERY = 50;

const attemptsSql = `SELECT json_agg(json_build_object('number', t.number, 'startedAt', rfc3339(t.started_at),
    'durationMs', t.duration_ms, 'statusCode', t.status_code, 'error', t.error, 'answer', t.answer) ORDER BY t.number)
  FROM (SELECT * FROM webhooks.attempt WHERE delivery_id = d.delivery_id
    ORDER BY number DESC LIMIT ${MAX_ATTEMPTS_PER_DELIVERY}) t`;

/** Selects the start time of a delivery's last attempt. The delivery's own row is updated only when an attempt ends. */
const lastStartSql =
  "SELECT started_at FROM webhooks.attempt WHERE delivery_id = d.delivery_id ORDER BY number DESC LIMIT 1";

/** Parameters of the SQL: $1 is the array of values of the column, $2 the array of permitted clinics (null for all). */
const createDeliveriesSql = (column: string) => `SELECT found.* FROM unnest($1::uuid[]) AS value
 CROSS JOIN LATERAL (SELECT d.delivery_id AS id, d.endpoint_id AS "endpointId",
    d.clinic_id AS "clinicId", d.application_id AS "applicationId", d.event_id AS "eventId", d.event_type AS type,
    d.event_position::text AS position, d.appointment_id AS "appointmentId", d.status, d.correlation_id AS "correlationId",
    rfc3339(d.next_attempt_at) AS "nextAttemptAt", rfc3339(d.created_at) AS "createdAt",
    rfc3339(GREATEST(d.updated_at, (${lastStartSql}))) AS "updatedAt", coalesce((${attemptsSql}), '[]') AS attempts
  FROM webhooks.delivery d
  WHERE d.${column} = value AND ($2::uuid[] IS NULL OR d.clinic_id = ANY ($2::uuid[]))
  ORDER BY d.created_at DESC, d.delivery_id LIMIT ${MAX_DELIVERIES_PER_STREAM}) found
 ORDER BY found."createdAt" DESC, found.id`;

/** Columns of the deliveries by the category of a stream. */
const COLUMNS = { appointment: "appointment_id", webhookEndpoint: "endpoint_id", delivery: "delivery_id" };

/**
 * Finds the deliveries that match a query and belong to the permitted clinics, with their attempts. Sorts the newest
 * delivery first.
 *
 * @param clinicIds ids of the permitted clinics; null for all clinics
 * @throws {Error} the error of the database
 */
export async function findDeliveries(
  pool: pg.Pool,
  { stream: streams = [], delivery }: DeliveriesQuery,
  clinicIds: readonly string[] | null,
): Promise<AuditedDelivery[]> {
  const names = delivery === undefined ? streams : [`delivery-${delivery}`];
  const deliveries: AuditedDelivery[] = [];
  for (const [category, column] of Object.entries(COLUMNS)) {
    const ids = names.flatMap((name) => uuid.safeParse(name.replace(`${category}-`, "")).data ?? []);
    const statement = { name: `deliveries by ${column}`, text: createDeliveriesSql(column), values: [ids, clinicIds] };
    if (ids.length > 0) deliveries.push(...(await pool.query<AuditedDelivery>(statement)).rows);
  }
  return deliveries;
}

/**
 * Returns the ids of the appointments and clinics of deliveries, and of the named streams, which are recorded with the
 * access. The event log does not show which records a delivery contains.
 */
export function describeDelivered(
  { stream: streams = [] }: DeliveriesQuery,
  deliveries: readonly AuditedDelivery[],
): { found: string[]; clinicIds: string[] } {
  const named = streams.map((stream) => stream.slice(stream.indexOf("-") + 1));
  const found = deliveries.flatMap(({ appointmentId }) => appointmentId ?? []);
  const clinicIds = deliveries.flatMap(({ clinicId }) => clinicId ?? []);
  return { found: [...new Set([...named, ...found])], clinicIds: [...new Set(clinicIds)] };
}
