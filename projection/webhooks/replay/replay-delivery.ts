import type pg from "pg";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import type { DeliverySource, WebhookDeliveryEvent } from "../../../shared/domain/events/partner.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import type { ReplayMessage } from "../../relay/message.ts";
import {
  addToOutbox,
  createDeliveryExpiredEvent,
  createDeliverySkippedEvent,
  inTransaction,
} from "../record/outbox.ts";
import {
  buildReplayableSql,
  REPLAYED_COLUMNS_SQL,
  type ReplayedDelivery,
  type RoundStatus,
  recreateBody,
  startRounds,
} from "./select-deliveries.ts";

/**
 * Result of a replay request.
 * - `pending`, `skipped` and `cancelled` are the delivery's new status.
 * - `expired`: The delivery cannot be replayed. An event was recorded.
 * - `ignored`: The request was processed before, or the delivery needs no replay.
 */
export type ReplayResult = RoundStatus | "expired" | "ignored";

/**
 * Processes a replay request. A failed or skipped delivery starts a new round with the same body. A deleted delivery
 * is restored first. If the endpoint is disabled, the delivery is skipped, and an event is recorded. The delivery
 * stores the log position of its latest request, so each request is processed only once. If the endpoint gets the
 * events of an appointment in order, later deliveries of the appointment are held.
 *
 * @throws {LogUnavailableError}
 * @throws {EventSchemaError} if the event or an earlier event of its stream is unreadable
 */
export async function replayDelivery(deps: ReplayDeps, request: ReplayMessage, now: number): Promise<ReplayResult> {
  const { pool, logger } = deps;
  const { deliveryId, requestId, correlationId } = request;
  let row = await findReplayable(pool, request);
  if (!row) {
    const restoreResult = await restoreDelivery(deps, request, now);
    if (restoreResult === "expired") return "expired";
    if (restoreResult === "restored") row = await findReplayable(pool, request);
  }
  if (!row) {
    logger.warn(
      { deliveryId, request: requestId },
      "A replay request was ignored, because the delivery needs no replay or the request was processed before.",
    );
    return "ignored";
  }
  const body = recreateBody(row);
  if (body === undefined) {
    logger.error({ deliveryId, request: requestId }, "A delivery was not replayed: the read models lack its event.");
    return "ignored";
  }
  return inTransaction(pool, async (client) => {
    const round = { deliveryId, causeId: requestId, body };
    const statuses = await startRounds(client, [round], { ...request, statuses: REPLAYABLE_STATUSES }, now);
    const status = statuses.get(deliveryId) ?? "ignored";
    if (status === "skipped") {
      const newRound = { ...row, causeId: requestId, correlationId, traceparent: request.traceparent };
      await addToOutbox(client, [createDeliverySkippedEvent(newRound, now)]);
    }
    return status;
  });
}

/** A partner's request for one delivery may replay these. */
const REPLAYABLE_STATUSES = ["failed", "skipped"];

async function findReplayable(pool: pg.Pool, request: ReplayMessage): Promise<ReplayedDelivery | undefined> {
  const { rows } = await pool.query<ReplayedDelivery>({
    name: "replayable delivery",
    text: `SELECT ${REPLAYED_COLUMNS_SQL}
             FROM webhooks.delivery d WHERE d.delivery_id = $1 AND ${buildReplayableSql("$3", "$2")}`,
    values: [request.deliveryId, request.position, REPLAYABLE_STATUSES],
  });
  return rows[0];
}

export interface ReplayDeps {
  pool: pg.Pool;
  log: EventLog;
  /** Throws an error if the database was not built from this log. */
  requireLog(): Promise<void>;
  logger: Logger;
}

/**
 * Result of an attempt to restore a deleted delivery.
 * - `restored`: The delivery exists again, with the status `failed`.
 * - `expired`: The delivery cannot be restored.
 * - `unchanged`: There was nothing to restore.
 */
type RestoreResult = "restored" | "expired" | "unchanged";

/**
 * Restores the row of a delivery that was deleted after the retention time, so that the delivery can be replayed. The
 * events in the delivery's stream identify the delivered event. If the delivered event cannot be found, or the endpoint
 * no longer exists, the delivery expires.
 *
 * @param now milliseconds since 1970
 * @throws {LogUnavailableError}
 */
async function restoreDelivery(deps: ReplayDeps, request: ReplayMessage, now: number): Promise<RestoreResult> {
  const { pool, log } = deps;
  const { deliveryId, endpointId } = request;
  const { rowCount } = await pool.query("SELECT FROM webhooks.delivery WHERE delivery_id = $1", [deliveryId]);
  if (rowCount !== 0) return "unchanged";
  const history = await log.read<WebhookDeliveryEvent>(`webhookDelivery-${deliveryId}`);
  const lastEvent = history.at(-1);
  // A message can arrive twice. The request is new only if it is the last event of the delivery's stream.
  if (lastEvent?.id !== request.requestId || lastEvent.type !== "WebhookDeliveryReplayRequested") return "unchanged";
  const source = history.flatMap((event) => ("source" in event.data && event.data.source) || []).at(-1);
  if (source && deriveWebhookDeliveryId(source.eventId, endpointId) === deliveryId) {
    const attemptCount = history.findLast((event) => event.type === "WebhookDeliveryFailed")?.data.attempts ?? 0;
    if (await insertDelivery(pool, request, source, attemptCount, now)) return "restored";
  }
  await recordExpiry(deps, request, now);
  return "expired";
}

/**
 * Adds a `WebhookDeliveryExpired` event to the outbox. First checks that the log matches the database, because an event
 * that is missing from a different log may still exist in the original log.
 *
 * @throws {DifferentLogError}
 */
async function recordExpiry(
  { pool, requireLog, logger }: ReplayDeps,
  request: ReplayMessage,
  now: number,
): Promise<void> {
  await requireLog();
  const { deliveryId, requestId } = request;
  logger.warn(
    { deliveryId, requestId },
    "A delivery cannot be replayed, because its event or endpoint no longer exists.",
  );
  await inTransaction(pool, (client) => addToOutbox(client, [createDeliveryExpiredEvent(request, now)]));
}

/**
 * Inserts the delivery with the status `failed`, unless the delivery already exists.
 *
 * @returns false if the endpoint or the event is unknown
 */
async function insertDelivery(
  pool: pg.Pool,
  { deliveryId, endpointId, requestId, correlationId }: ReplayMessage,
  { eventId, stream, revision }: DeliverySource,
  attemptCount: number,
  now: number,
): Promise<boolean> {
  const { rows } = await pool.query<{ known: boolean }>({
    name: "restore delivery",
    text: `WITH source AS (
             SELECT w.endpoint_id, w.application_id, w.clinic_id, w.environment, e.branch_id, e.animal_id, e.type
               FROM ${READ_MODEL_SCHEMA}.webhook_endpoint w
               JOIN ${READ_MODEL_SCHEMA}.public_event e ON e.event_id = $3 AND e.type IS NOT NULL
              WHERE w.endpoint_id = $2 AND (w.clinic_id IS NULL OR w.clinic_id = e.clinic_id)),
           restored AS (
             INSERT INTO webhooks.delivery (delivery_id, endpoint_id, application_id, clinic_id, branch_id, animal_id,
               environment, event_id, event_type, event_stream, event_revision, status, attempt_count, cause_id,
               correlation_id, created_at, updated_at)
             SELECT $1, endpoint_id, application_id, clinic_id, branch_id, animal_id, environment, $3, type, $4, $5,
                    'failed', $6, $7, $8, $9, $9
               FROM source
             ON CONFLICT DO NOTHING)
           SELECT EXISTS (SELECT FROM source) AS known`,
    values: [deliveryId, endpointId, eventId, stream, revision, attemptCount, requestId, correlationId, toInstant(now)],
  });
  return rows[0]?.known === true;
}
