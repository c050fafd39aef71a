import type pg from "pg";
import { type Environment, environment as environments } from "../../../shared/domain/events/fields.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createNotifier } from "../../../shared/runtime/backoff.ts";

/** Kind of attempt. First attempts and retries have separate slots, so that they do not delay each other. */
export type Lane = "first" | "retry";

export interface DueEndpoint {
  lane: Lane;
  environment: Environment;
  applicationId: string;
  endpointId: string;
}

interface DueEntry {
  endpointId: string;
  /** As far as this process knows. */
  isFailing: boolean;
  /** The rate limit permits no attempt before this time, in milliseconds on the clock of the slots. */
  notBefore: number;
  /** Version of the list when the endpoint was last added. */
  version: number;
}

/**
 * Endpoints with due deliveries, as far as this process knows, with one entry for each endpoint and lane. Claims use
 * this list, so that a claim need not search all endpoints. The next search adds missing entries. An outdated entry
 * only causes one claim that finds nothing.
 */
export class DueEndpoints {
  readonly #entries = new Map<string, Map<string, Map<string, DueEntry>>>();
  readonly #notifier = createNotifier();
  #version = 0;

  get version(): number {
    return this.#version;
  }

  /** Wakes the sender. */
  add(endpoints: readonly DueEndpoint[]): void {
    this.#version += 1;
    for (const { lane, environment, applicationId, endpointId } of endpoints) {
      const entriesByApplication = this.listEntries(lane, environment);
      const entries = entriesByApplication.get(applicationId) ?? new Map<string, DueEntry>();
      entriesByApplication.set(applicationId, entries);
      const dueEntry = entries.get(endpointId) ?? { endpointId, isFailing: false, notBefore: 0 };
      entries.set(endpointId, { ...dueEntry, version: this.#version });
    }
    if (endpoints.length > 0) this.wake();
  }

  update(endpoint: DueEndpoint, state: Pick<DueEntry, "isFailing" | "notBefore">): void {
    const dueEntry = this.#find(endpoint);
    if (dueEntry) Object.assign(dueEntry, state);
  }

  /** Removes an endpoint, unless it was added again after the given version. */
  remove(endpoint: DueEndpoint, version: number): void {
    const dueEntry = this.#find(endpoint);
    if (!dueEntry || dueEntry.version > version) return;
    const entriesByApplication = this.listEntries(endpoint.lane, endpoint.environment);
    const entries = entriesByApplication.get(endpoint.applicationId);
    entries?.delete(endpoint.endpointId);
    if (entries?.size === 0) entriesByApplication.delete(endpoint.applicationId);
  }

  get isEmpty(): boolean {
    return [...this.#entries.values()].every((entriesByApplication) => entriesByApplication.size === 0);
  }

  listEntries(lane: Lane, environment: Environment): Map<string, Map<string, DueEntry>> {
    const key = `${lane} ${environment}`;
    const entriesByApplication = this.#entries.get(key) ?? new Map();
    this.#entries.set(key, entriesByApplication);
    return entriesByApplication;
  }

  listEndpointIds(lane: Lane): string[] {
    return environments.options.flatMap((environment) =>
      Array.from(this.listEntries(lane, environment).values(), (entries) => [...entries.keys()]).flat(),
    );
  }

  wake(): void {
    this.#notifier.wake();
  }

  /** Sleeps until `wake` is called, until the time has passed, or until the signal aborts. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
    return this.#notifier.sleep(milliseconds, signal);
  }

  #find({ lane, environment, applicationId, endpointId }: DueEndpoint): DueEntry | undefined {
    return this.listEntries(lane, environment).get(applicationId)?.get(endpointId);
  }
}

/** SQL condition for the pending deliveries in each lane. The partial index of each lane uses the same condition. */
export const LANE_CONDITIONS: Record<Lane, string> = {
  first: "round_attempt_count = 0 AND NOT is_held",
  retry: "round_attempt_count > 0 AND NOT is_held",
};

/**
 * SQL condition for due deliveries. $1 is the current time. A leased delivery is due only after its lease expires, or
 * after its sender is gone.
 */
export const IS_DUE_SQL = `
  next_attempt_at <= $1 AND (lease_expires_at IS NULL OR lease_expires_at <= $1
    OR NOT EXISTS (SELECT FROM webhooks.sender s WHERE s.sender_id = pending_delivery.sender_id))`;

/**
 * Returns SQL that selects an endpoint if deliveries may be sent to it. The endpoint, its application and, for an
 * endpoint of a clinic, the installation must be active. In production, the origin of the URL must be approved. An endpoint counts
 * as disabled if the event that disables it still waits in the outbox. The column `branch_ids` lists the branches that
 * the application may access, and `animal_access` tells the animals.
 *
 * The result is valid only if {@link READ_MODELS_CURRENT_SQL} is true. Otherwise the read models may lack a revocation.
 * LIMIT prevents the planner from joining all endpoints.
 *
 * @param endpointIdSql SQL expression for the endpoint's id
 */
export const buildActiveEndpointSql = (endpointIdSql: string) => `
  SELECT e.endpoint_id, e.application_id, e.environment, e.url, e.rate_limit_per_second, e.body_format, i.branch_ids,
         i.animal_access
    FROM ${READ_MODEL_SCHEMA}.webhook_endpoint e
    LEFT JOIN ${READ_MODEL_SCHEMA}.installation i
      ON i.application_id = e.application_id AND i.clinic_id = e.clinic_id AND i.status = 'approved'
    JOIN ${READ_MODEL_SCHEMA}.partner_application a ON a.application_id = e.application_id AND NOT a.revoked
   WHERE e.endpoint_id = ${endpointIdSql} AND e.status = 'active'
     AND (e.clinic_id IS NULL OR i.installation_id IS NOT NULL)
     AND (e.environment <> 'production' OR a.webhook_origins ? e.origin)
     AND NOT EXISTS (SELECT FROM webhooks.outbox o
                      WHERE o.stream = 'webhookEndpoint-' || e.endpoint_id
                        AND o.event->>'type' = 'WebhookEndpointDisabled')
   LIMIT 1`;

/**
 * SQL condition that is true if the read models include every event up to the relay's checkpoint, and every event that
 * may revoke access and that the relay has read.
 */
export const READ_MODELS_CURRENT_SQL = `
  COALESCE((SELECT GREATEST(position, revocation_position) FROM webhooks.relay_checkpoint), -1)
    <= (SELECT position FROM ${READ_MODEL_SCHEMA}.checkpoint WHERE name = 'read_models')`;

/**
 * Returns SQL that finds the endpoints with pending deliveries in a lane. The query reads one index entry for each
 * endpoint, regardless of the number of deliveries.
 *
 * @param name name of the recursive query
 * @param laneCondition SQL condition of the lane
 */
export function buildPendingEndpointsSql(name: string, laneCondition: string): string {
  const buildSql = (afterSql: string) =>
    `SELECT endpoint_id FROM webhooks.pending_delivery WHERE ${laneCondition}${afterSql} ORDER BY endpoint_id LIMIT 1`;
  return `${name} AS (
    (${buildSql("")})
    UNION ALL
    SELECT (${buildSql(` AND endpoint_id > ${name}.endpoint_id`)}) FROM ${name} WHERE ${name}.endpoint_id IS NOT NULL
  )`;
}

/**
 * Returns SQL that finds the endpoints with due deliveries in a lane, except the known endpoints. Because of LIMIT, the
 * query reads at most one delivery of each endpoint, in addition to leased deliveries.
 *
 * @param knownIdsSql SQL parameter with the ids of the known endpoints
 */
const buildDueEndpointsSql = (lane: Lane, knownIdsSql: string) => `
  SELECT '${lane}' AS lane, x.endpoint_id
    FROM ${lane}_endpoints x
   CROSS JOIN LATERAL (
     SELECT FROM webhooks.pending_delivery
      WHERE endpoint_id = x.endpoint_id AND ${LANE_CONDITIONS[lane]} AND ${IS_DUE_SQL} LIMIT 1) d
   WHERE NOT EXISTS (SELECT FROM unnest(${knownIdsSql}::uuid[]) AS known (endpoint_id) WHERE known.endpoint_id = x.endpoint_id)`;

/** Has at least one row while deliveries are pending. The row has no endpoint if none of them is due. */
const FIND_DUE_ENDPOINTS_SQL = `
  WITH RECURSIVE ${buildPendingEndpointsSql("first_endpoints", LANE_CONDITIONS.first)},
  ${buildPendingEndpointsSql("retry_endpoints", LANE_CONDITIONS.retry)},
  due AS MATERIALIZED (${buildDueEndpointsSql("first", "$2")} UNION ALL ${buildDueEndpointsSql("retry", "$3")}),
  active AS (
    SELECT due.lane, a.environment, a.application_id AS "applicationId", a.endpoint_id AS "endpointId"
      FROM due
     CROSS JOIN LATERAL (${buildActiveEndpointSql("due.endpoint_id")}) a
     WHERE ${READ_MODELS_CURRENT_SQL}
  )
  SELECT active.*
    FROM (SELECT FROM (TABLE first_endpoints UNION ALL TABLE retry_endpoints) e
           WHERE endpoint_id IS NOT NULL LIMIT 1) pending
    LEFT JOIN active ON true`;

/**
 * Finds the active endpoints with due deliveries.
 *
 * @param knownEndpointIds ids of endpoints to leave out, by lane
 * @param now milliseconds since 1970
 */
export async function findDueEndpoints(
  pool: pg.Pool,
  knownEndpointIds: Record<Lane, readonly string[]>,
  now: number,
): Promise<{ endpoints: DueEndpoint[]; hasPending: boolean }> {
  const { rows } = await pool.query<DueEndpoint | Record<keyof DueEndpoint, null>>({
    name: "find due endpoints",
    text: FIND_DUE_ENDPOINTS_SQL,
    values: [toInstant(now), knownEndpointIds.first, knownEndpointIds.retry],
  });
  const endpoints = rows.filter((row): row is DueEndpoint => row.endpointId !== null);
  return { endpoints, hasPending: rows.length > 0 };
}
