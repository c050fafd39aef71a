import type pg from "pg";
import { webhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import type { WebhookDeliveryEvent } from "../../../shared/domain/events/partner.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import type { WebhookBody } from "../../../shared/partner-api/webhook-body.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import type { ReplayMessage } from "../../relay/message.ts";
import { deliveryExpired, keepFacts } from "../outbox/facts.ts";
import { inTransaction } from "../outbox/transaction.ts";
import { readStream, webhookBodyAt } from "./webhook-body-at.ts";

/** What replays work on. */
export interface ReplayDeps {
  pool: pg.Pool;
  log: EventLog;
  /** Checks that the log is the one that the database was built from. */
  requireLog(): Promise<void>;
  logger: Logger;
}

/** `restored`: the row is there again, failed as it was; `kept`: it never went, or the request is not the latest. */
export type Restored = "restored" | "expired" | "kept";

/**
 * Makes the row of a delivery again that is to be replayed and was deleted for its age. Its facts in the log say where
 * the event stands that it tells of. Where they do not, or its endpoint is gone, the log is told that it has expired:
 * it cannot be asked for again, and nobody waits for it.
 *
 * @param now milliseconds since 1970
 * @throws {LogUnavailable}
 */
export async function restoreDelivery(
  deps: ReplayDeps,
  request: ReplayMessage,
  now: number,
): Promise<Restored> {
  const { pool, log } = deps;
  const { deliveryId, endpointId } = request;
  const { rowCount } = await pool.query("SELECT FROM webhooks.delivery WHERE delivery_id = $1", [deliveryId]);
  if (rowCount !== 0) return "kept";
  const history = await readStream<WebhookDeliveryEvent>(log, `webhookDelivery-${deliveryId}`);
  const latest = history.at(-1);
  // Of requests that are told again, the last one counts, and only while nothing has come of it.
  if (latest?.id !== request.requestId || latest.type !== "WebhookDeliveryReplayRequested") return "kept";
  const stored = history.flatMap((event) => ("source" in event.data && event.data.source) || []).at(-1);
  const source = stored && { stream: stored.stream, revision: BigInt(stored.revision) };
  const body = source && (await webhookBodyAt(log, source));
  if (source && body && webhookDeliveryId(body.id, endpointId) === deliveryId) {
    const attempts = history.findLast((event) => event.type === "WebhookDeliveryFailed")?.data.attempts ?? 0;
    if (await insert(pool, request, { source, body, attempts }, now)) return "restored";
  }
  await expireDelivery(deps, request, now);
  return "expired";
}

/**
 * Tells the log that a delivery that is to be replayed cannot be. Another log does not have the delivery's event either,
 * and proves nothing.
 *
 * @throws {DifferentLog}
 */
export async function expireDelivery(
  { pool, requireLog, logger }: ReplayDeps,
  request: ReplayMessage,
  now: number,
): Promise<void> {
  await requireLog();
  const { deliveryId, requestId } = request;
  logger.warn({ deliveryId, requestId }, "a delivery to replay cannot be made again");
  await inTransaction(pool, (client) => keepFacts(client, [deliveryExpired(request, now)]));
}

/** @returns whether its endpoint is known; a row that somebody else was first to make counts as made */
async function insert(
  pool: pg.Pool,
  { deliveryId, endpointId, requestId, correlationId }: ReplayMessage,
  of: { source: { stream: string; revision: bigint }; body: WebhookBody; attempts: number },
  now: number,
): Promise<boolean> {
  const { source, body, attempts } = of;
  const { rows } = await pool.query<{ known: boolean }>({
    name: "restore delivery",
    text: `WITH endpoint AS (SELECT endpoint_id, application_id FROM read_model.webhook_endpoint
                              WHERE endpoint_id = $2 AND clinic_id = $3 AND environment = $5),
           restored AS (
             INSERT INTO webhooks.delivery (delivery_id, endpoint_id, application_id, clinic_id, branch_id, environment,
               event_id, event_type, event_stream, event_revision, body, status, attempt_count, cause_id, correlation_id,
               created_at, updated_at)
             SELECT $1, endpoint_id, application_id, $3, $4, $5, $6, $7, $8, $9, $10, 'failed', $11, $12, $13, $14, $14
               FROM endpoint
             ON CONFLICT DO NOTHING)
           SELECT EXISTS (SELECT FROM endpoint) AS known`,
    values: [
      ...[deliveryId, endpointId, body.clinicId, body.branchId, body.environment, body.id, body.type],
      ...[source.stream, source.revision, JSON.stringify(body), attempts, requestId, correlationId],
      toInstant(now),
    ],
  });
  return rows[0]?.known === true;
}
