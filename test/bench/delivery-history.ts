import { randomUUID } from "node:crypto";
import type pg from "pg";
import { endpointRegistered, installationApproved, registerApplication } from "../support/partner-events.ts";
import type { ReadModelDatabase } from "../support/read-models.ts";

export interface BenchEndpoint {
  clinicId: string;
  branchId: string;
  applicationId: string;
  endpointId: string;
}

/** Number of failed deliveries, of pending deliveries, and of test events. The same for each history. */
const RARE_COUNT = 60;

/** Time between two deliveries. Seconds. */
const INTERVAL_SECONDS = 1;

export async function createBenchEndpoint(
  given: ReadModelDatabase["given"],
  { clinicId, branchId }: { clinicId: string; branchId: string },
): Promise<BenchEndpoint> {
  const application = await registerApplication(given);
  const endpointId = randomUUID();
  await given(installationApproved(application, clinicId), endpointRegistered(application, clinicId, endpointId));
  return { clinicId, branchId, applicationId: application.applicationId, endpointId };
}

/**
 * Adds deliveries to an endpoint. The failed, the pending and the test deliveries are the oldest. This order is the
 * worst case for a filtered list that starts with the newest delivery.
 *
 * @param count number of successful deliveries
 */
export async function fillDeliveries(admin: pg.Pool, endpoint: BenchEndpoint, count: number): Promise<void> {
  const { endpointId, clinicId, branchId, applicationId } = endpoint;
  await admin.query(
    `WITH added AS (
       INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, branch_id, application_id, environment,
         event_id, event_type, appointment_id, event_position, status, cause_id, correlation_id, attempt_count,
         created_at, updated_at)
       SELECT gen_random_uuid(), $1, $2, $3, $4, 'production', gen_random_uuid(),
              CASE WHEN n > 2 * $6::integer AND n <= 3 * $6::integer THEN 'endpoint.test'
                   WHEN n % 3 = 0 THEN 'appointment.created' ELSE 'appointment.updated' END,
              gen_random_uuid(), n,
              CASE WHEN n <= $6::integer THEN 'failed' WHEN n <= 2 * $6::integer THEN 'pending' ELSE 'delivered' END,
              gen_random_uuid(), gen_random_uuid(), 1, at, at
         FROM generate_series(1, $5::integer + 3 * $6::integer) n,
              LATERAL (SELECT now() - ($5::integer + 3 * $6::integer - n) * $7::integer * interval '1 second' AS at) t
       RETURNING delivery_id, event_id, status, created_at),
     attempts AS (
       INSERT INTO webhooks.attempt (delivery_id, number, started_at, duration_ms, status_code, answer)
       SELECT delivery_id, 1, created_at, 20, 200, 'ok' FROM added)
     INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, event_id, event_position, next_attempt_at,
       failed_attempt_count, attempt_count)
     SELECT delivery_id, $1, event_id, 0, created_at, 1, 1 FROM added WHERE status = 'pending'`,
    [endpointId, clinicId, branchId, applicationId, count, RARE_COUNT, INTERVAL_SECONDS],
  );
  await admin.query("VACUUM ANALYZE webhooks.delivery, webhooks.attempt, webhooks.pending_delivery");
}

/** Filters and cursor of a request for one page of a list. */
interface ListQuery {
  /** Suffix of the measurement's name. */
  name: string;
  parameters: Record<string, string | null>;
  cursor: { time: string; id: string } | undefined;
}

export const usualQuery: ListQuery = { name: "", parameters: {}, cursor: undefined };

/** Returns one query of the delivery list for each filter, and one query for a late page. */
export function createDeliveryQueries(): ListQuery[] {
  const noFilters = { status: null, type: null, appointmentId: null, from: null, to: null };
  const oldTime = new Date(Date.now() - 900 * INTERVAL_SECONDS * 1_000).toISOString();
  const filters = {
    ", failed": { status: "failed" },
    ", pending": { status: "pending" },
    ", skipped": { status: "skipped" },
    ", delivered": { status: "delivered" },
    ", test events": { type: "endpoint.test" },
    ", type without deliveries": { type: "secret.expiring" },
    ", 15 minutes ago": { to: oldTime },
  };
  return [
    { ...usualQuery, parameters: noFilters },
    ...Object.entries(filters).map(([name, filter]) => ({
      ...usualQuery,
      name,
      parameters: { ...noFilters, ...filter },
    })),
    { name: ", cursor", parameters: noFilters, cursor: { time: oldTime, id: randomUUID() } },
  ];
}
