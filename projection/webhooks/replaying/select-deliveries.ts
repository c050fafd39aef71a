import type pg from "pg";
import { deliveredEventType } from "../../../shared/domain/events/partner.ts";
import { DELIVERY_ROUND_COLUMNS } from "../outbox/facts.ts";
import type { ReplayedDelivery } from "./recreate-body.ts";
import { buildReplayableSql } from "./start-rounds.ts";
import type { UnfinishedReplay } from "./unfinished-replays.ts";

/** A delivery that a replay selects. Cause and correlation id still belong to the former round. */
export interface SelectedDelivery extends ReplayedDelivery {
  /** Time of creation with microseconds, as text. */
  createdAt: string;
}

/** Maximum number of deliveries in a batch. A request has at most as many ids. */
export const MAX_BATCH_SIZE = 100;

const COLUMNS_SQL = `${DELIVERY_ROUND_COLUMNS}, d.event_id AS "eventId", d.created_at::text AS "createdAt"`;

const SELECT_BY_ID_SQL = `
  SELECT ${COLUMNS_SQL} FROM webhooks.delivery d
   WHERE d.delivery_id = ANY ($1::uuid[]) AND d.endpoint_id = $2 AND ${buildReplayableSql("$3", "$4")}`;

/** Reads the oldest entries of each status and type in the index of the endpoint's deliveries, and merges them. */
const SELECT_BY_TIME_SQL = `
  SELECT found.* FROM unnest($5::text[]) AS s (unsuccessful_status) CROSS JOIN unnest($6::text[]) AS t (event_type)
   CROSS JOIN LATERAL (
     SELECT ${COLUMNS_SQL}, d.created_at FROM webhooks.delivery d
      WHERE d.endpoint_id = $2 AND d.unsuccessful_status = s.unsuccessful_status AND d.event_type = t.event_type
        AND (d.created_at AT TIME ZONE 'UTC') >= ($1::timestamptz AT TIME ZONE 'UTC')
        AND (d.created_at AT TIME ZONE 'UTC') < ($7::timestamptz AT TIME ZONE 'UTC')
        AND ${buildReplayableSql("$3", "$4")}
      ORDER BY d.created_at AT TIME ZONE 'UTC', d.delivery_id DESC
      LIMIT ${MAX_BATCH_SIZE}) found
   ORDER BY created_at
   LIMIT ${MAX_BATCH_SIZE}`;

/**
 * Selects the next deliveries of a replay, oldest first. A delivery that the replay has processed is not selected
 * again.
 *
 * @param nextCreatedAt earliest time of creation; null for the first batch
 */
export async function selectDeliveries(
  client: pg.ClientBase,
  replay: UnfinishedReplay,
  nextCreatedAt: string | null,
): Promise<SelectedDelivery[]> {
  const { endpointId, deliveryIds, since, until, statuses, position } = replay;
  const unsuccessfulStatuses = statuses.map((status) => (status === "delivered" ? "none" : status));
  const { rows } = await client.query<SelectedDelivery>(
    deliveryIds
      ? { name: "replay by id", text: SELECT_BY_ID_SQL, values: [deliveryIds, endpointId, statuses, position] }
      : {
          name: "replay by time",
          text: SELECT_BY_TIME_SQL,
          values: [
            ...[nextCreatedAt ?? since, endpointId, statuses, position, unsuccessfulStatuses],
            ...[deliveredEventType.options, until],
          ],
        },
  );
  return rows;
}
