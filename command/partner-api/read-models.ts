import type pg from "pg";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { createUnavailableError } from "../../shared/http/api-error.ts";
import { IS_DELIVERY_VISIBLE_SQL } from "../../shared/partner-api/animal-access.ts";
import {
  buildClosuresSql,
  buildSearchedResourcesSql,
  closures,
  searchedResources,
} from "../../shared/partner-api/slot-search.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { areReadModelsMissing, isPostgresUnavailable } from "../../shared/runtime/failures.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { appendDerivedEvent, type DerivedEvent, SELECT_FAILURES_SQL } from "../../shared/webhooks/derived-event.ts";
import type { FindReplayableDelivery } from "../operations/replay-operations.ts";

/** Branch and time of a booking. Times are RFC 3339 date-times. */
export interface BookingTime {
  clinicId: string;
  branchId: string;
  startsAt: string;
  endsAt: string;
  now: string;
}

export type ReadModels = ReturnType<typeof createReadModels>;

const windowSql = { from: "$3::timestamptz", to: "$4::timestamptz", now: "$5::timestamptz" };

const resourcesSql = buildSearchedResourcesSql(
  "r.clinic_id = $1::uuid AND r.branch_id = $2::uuid AND r.resource_type = $6",
  windowSql,
);
const closuresSql = buildClosuresSql({ clinicId: "$1::uuid", branchId: "$2::uuid", ...windowSql });

/** SQL expression: last replay position of a failed or skipped delivery, as JSON; null if there is no such delivery. */
const REPLAYABLE_DELIVERY_SQL = `(SELECT json_build_object('replayPosition', d.replay_position::text)
    FROM webhooks.delivery d
   WHERE d.delivery_id = $1 AND d.endpoint_id = $2 AND d.application_id = $3 AND d.clinic_id IS NOT DISTINCT FROM $4
     AND d.environment = $5 AND d.status IN ('failed', 'skipped') AND ${IS_DELIVERY_VISIBLE_SQL})`;

/**
 * Creates the database queries that writes of the partner API need. They throw an {@link ApiError} 503
 * `data_source_unavailable` if the database has no filled read models of this release. If Postgres is unavailable, they
 * throw the error of the query. `disableFailingEndpoint` throws neither.
 */
export function createReadModels(pool: pg.Pool, log: EventLog, logger: Logger) {
  async function query(name: string, sql: string, values: (string | null)[]): Promise<unknown> {
    const text = `SELECT c.filled, ${sql} AS result FROM ${READ_MODEL_SCHEMA}.checkpoint c`;
    type Result = { filled: boolean; result: unknown };
    const { rows } = await pool.query<Result>({ name, text, values }).catch((error: unknown) => {
      throw areReadModelsMissing(error) ? createUnavailableError("data_source_unavailable", error) : error;
    });
    // Before, the access to branches and animals is unknown, too.
    if (!rows[0]?.filled)
      throw createUnavailableError("data_source_unavailable", new Error("The read models are not filled yet."));
    return rows[0].result;
  }
  const toValues = ({ clinicId, branchId, startsAt, endsAt, now }: BookingTime) => [
    ...[clinicId, branchId, startsAt, endsAt, now],
  ];
  const findReplayableDelivery: FindReplayableDelivery = async ({ endpointId, owner }, deliveryId) => {
    const values = [deliveryId, endpointId, owner.applicationId, owner.clinicId, owner.environment];
    const found = await query("replayable delivery", REPLAYABLE_DELIVERY_SQL, values);
    const { replayPosition } = (found ?? {}) as { replayPosition?: string | null };
    if (replayPosition === undefined) return undefined;
    return { replayPosition: replayPosition === null ? null : BigInt(replayPosition) };
  };
  return {
    /** Finds the resources and holds that determine the free places of a branch. */
    slotSearch: {
      /** Finds the active resources of a type, with their rules and occupied times around the time of the booking. */
      findResources: async (search: BookingTime & { resourceType: string }) =>
        searchedResources.parse(
          await query("bookable resources", resourcesSql, [...toValues(search), search.resourceType]),
        ),
      /** Finds the holds of the whole branch at the time of the booking. */
      findClosures: async (search: BookingTime) =>
        closures.parse(await query("closures", closuresSql, toValues(search))),
    },

    findReplayableDelivery,

    /**
     * Records in the log that failures have disabled an endpoint, if the log does not contain this yet. Call it before
     * the endpoint is enabled. Otherwise, the webhooks role could record the failures later, and disable the endpoint
     * again. Records nothing if Postgres is unavailable.
     *
     * @throws {LogUnavailableError}
     */
    async disableFailingEndpoint(endpointId: string) {
      const text = `${SELECT_FAILURES_SQL} WHERE endpoint_id = $1 AND is_disabled`;
      const statement = { name: "disabled endpoint", text, values: [endpointId] };
      const { rows } = await pool.query<DerivedEvent>(statement).catch((error: unknown) => {
        if (!isPostgresUnavailable(error)) throw error;
        logger.warn({ error, endpointId }, "a command is decided without the failures of the endpoint");
        return { rows: [] };
      });
      for (const row of rows) await appendDerivedEvent(log, row);
    },
  };
}
