import type pg from "pg";
import { isPostgresUnavailable } from "../../shared/postgres/unavailable.ts";
import { ServerUnavailableError } from "../../shared/runtime/run-service.ts";

interface AppointmentDelivery {
  id: string;
  applicationId: string;
  endpointId: string;
  type: string;
  stream: string;
  status: string;
  createdAt: string;
  lastAttempt: { startedAt: string; statusCode: number | null } | null;
}

/** $1: clinic. $2: streams of appointments. */
const DELIVERIES_SQL = `SELECT d.delivery_id AS id, d.application_id AS "applicationId", d.endpoint_id AS "endpointId",
    d.event_type AS type, d.event_stream AS stream, d.status, rfc3339(d.created_at) AS "createdAt",
    (SELECT json_build_object('startedAt', rfc3339(a.started_at), 'statusCode', a.status_code)
       FROM webhooks.attempt a WHERE a.delivery_id = d.delivery_id ORDER BY a.number DESC LIMIT 1) AS "lastAttempt"
  FROM webhooks.delivery d
  WHERE d.clinic_id = $1 AND d.event_stream = ANY ($2::text[])
  ORDER BY d.created_at, d.delivery_id`;

/**
 * Finds the webhook deliveries of a clinic's appointments, oldest first.
 *
 * @throws {ServerUnavailableError} if Postgres is unavailable
 */
export async function findAppointmentDeliveries(
  pool: pg.Pool,
  clinicId: string,
  streams: readonly string[],
): Promise<AppointmentDelivery[]> {
  try {
    return (await pool.query<AppointmentDelivery>(DELIVERIES_SQL, [clinicId, streams])).rows;
  } catch (error) {
    if (!isPostgresUnavailable(error)) throw error;
    throw new ServerUnavailableError("Postgres is unavailable; check DATABASE_URL and try again", { cause: error });
  }
}
