import type pg from "pg";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import type { WebhookDeliveryEvent } from "../../../shared/domain/events/partner.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { readStreamIfPresent } from "../../../shared/eventstore/read-stream.ts";
import { createWebhookBody, type WebhookBody } from "../../../shared/partner-api/webhook-body.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import type { ReplayMessage } from "../../relay/message.ts";
import { addFacts, createExpiredFact } from "../outbox/facts.ts";
import { inTransaction } from "../outbox/transaction.ts";

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
export type RestoreResult = "restored" | "expired" | "unchanged";

/**
 * Restores the row of a delivery that was deleted after the retention time, so that the delivery can be replayed. The
 * events in the delivery's stream identify the delivered event. If the delivered event cannot be found, or the endpoint
 * no longer exists, the delivery expires.
 *
 * @param now milliseconds since 1970
 * @throws {LogUnavailableError}
 */
export async function restoreDelivery(deps: ReplayDeps, request: ReplayMessage, now: number): Promise<RestoreResult> {
  const { pool, log } = deps;
  const { deliveryId, endpointId } = request;
  const { rowCount } = await pool.query("SELECT FROM webhooks.delivery WHERE delivery_id = $1", [deliveryId]);
  if (rowCount !== 0) return "unchanged";
  const history = await readStreamIfPresent<WebhookDeliveryEvent>(log, `webhookDelivery-${deliveryId}`);
  const lastEvent = history.at(-1);
  // A message can arrive twice. The request is new only if it is the last event of the delivery's stream.
  if (lastEvent?.id !== request.requestId || lastEvent.type !== "WebhookDeliveryReplayRequested") return "unchanged";
  const storedSource = history.flatMap((event) => ("source" in event.data && event.data.source) || []).at(-1);
  const source = storedSource && { stream: storedSource.stream, revision: BigInt(storedSource.revision) };
  const body = source && (await createWebhookBody(log, source));
  if (source && body && deriveWebhookDeliveryId(body.id, endpointId) === deliveryId) {
    const attemptCount = history.findLast((event) => event.type === "WebhookDeliveryFailed")?.data.attempts ?? 0;
    if (await insertDelivery(pool, request, { source, body, attemptCount }, now)) return "restored";
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
export async function recordExpiry(
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
  await inTransaction(pool, (client) => addFacts(client, [createExpiredFact(request, now)]));
}

/**
 * Inserts the delivery with the status `failed`, unless the delivery already exists.
 *
 * @returns false if the endpoint is unknown
 */
async function insertDelivery(
  pool: pg.Pool,
  { deliveryId, endpointId, requestId, correlationId }: ReplayMessage,
  event: { source: { stream: string; revision: bigint }; body: WebhookBody; attemptCount: number },
  now: number,
): Promise<boolean> {
  const { source, body, attemptCount } = event;
  const { rows } = await pool.query<{ known: boolean }>({
    name: "restore delivery",
    text: `WITH endpoint AS (SELECT endpoint_id, application_id FROM ${READ_MODEL_SCHEMA}.webhook_endpoint
                              WHERE endpoint_id = $2 AND clinic_id = $3 AND environment = $5),
           restored AS (
             INSERT INTO webhooks.delivery (delivery_id, endpoint_id, application_id, clinic_id, branch_id, environment,
               event_id, event_type, event_stream, event_revision, status, attempt_count, cause_id, correlation_id, created_at,
               updated_at)
             SELECT $1, endpoint_id, application_id, $3, $4, $5, $6, $7, $8, $9, 'failed', $10, $11, $12, $13, $13
               FROM endpoint
             ON CONFLICT DO NOTHING)
           SELECT EXISTS (SELECT FROM endpoint) AS known`,
    values: [
      ...[deliveryId, endpointId, body.clinicId, body.branchId, body.environment, body.id, body.type],
      ...[source.stream, source.revision, attemptCount, requestId, correlationId, toInstant(now)],
    ],
  });
  return rows[0]?.known === true;
}
