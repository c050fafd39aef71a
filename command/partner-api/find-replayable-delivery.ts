import type pg from "pg";
import { createUnavailableError } from "../../shared/http/api-error.ts";
import { IS_DELIVERY_VISIBLE_SQL } from "../../shared/partner-api/animal-access.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { areReadModelsMissing } from "../../shared/runtime/failures.ts";
import type { FindReplayableDelivery } from "../operations/replay-operations.ts";

interface CheckedDelivery {
  /** False until this release's read models contain the whole log. */
  filled: boolean;
  isReplayable: boolean;
  replayPosition: bigint | null;
}

const REPLAYABLE_DELIVERY_SQL = `
  SELECT c.filled, d.delivery_id IS NOT NULL AS "isReplayable", d.replay_position AS "replayPosition"
    FROM ${READ_MODEL_SCHEMA}.checkpoint c
    LEFT JOIN webhooks.delivery d
      ON d.delivery_id = $1 AND d.endpoint_id = $2 AND d.application_id = $3 AND d.clinic_id IS NOT DISTINCT FROM $4
     AND d.environment = $5 AND d.status IN ('failed', 'skipped') AND ${IS_DELIVERY_VISIBLE_SQL}`;

/**
 * Creates the function that finds a failed or skipped delivery of an endpoint. The function throws an {@link ApiError}
 * 503 `data_source_unavailable` if the database has no read models of this release, and the error of the query if
 * Postgres is unavailable.
 */
export function createReplayableDeliveryFinder(pool: pg.Pool): FindReplayableDelivery {
  return async ({ endpointId, owner }, deliveryId) => {
    const { applicationId, clinicId, environment } = owner;
    const statement = {
      name: "replayable delivery",
      text: REPLAYABLE_DELIVERY_SQL,
      values: [deliveryId, endpointId, applicationId, clinicId, environment],
    };
    const { rows } = await pool.query<CheckedDelivery>(statement).catch((error: unknown) => {
      throw areReadModelsMissing(error) ? createUnavailableError("data_source_unavailable", error) : error;
    });
    const [delivery] = rows;
    // The access to branches and animals is unknown before.
    if (!delivery?.filled)
      throw createUnavailableError("data_source_unavailable", new Error("The read models are not filled yet."));
    return delivery.isReplayable ? delivery : undefined;
  };
}
