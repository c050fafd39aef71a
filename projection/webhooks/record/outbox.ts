import type pg from "pg";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import { deriveConsequenceId, deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import {
  type DeliverySource,
  type ReplayOutcome,
  webhookDeliveryStreams,
  webhookEndpointStreams,
  webhookReplayStreams,
} from "../../../shared/domain/events/partner.ts";
import { type Instant, toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { NewEvent } from "../../../shared/eventstore/log.ts";
import { awaitPipelined } from "../../../shared/postgres/pool.ts";
import { isPostgresUnavailable } from "../../../shared/postgres/unavailable.ts";
import type { ReplayMessage } from "../../relay/message.ts";

/** A round of a delivery, with the data for events about the round. */
export interface DeliveryRound {
  deliveryId: string;
  endpointId: string;
  /** Null if the endpoint belongs to the application. */
  clinicId: string | null;
  environment: Environment;
  causeId: string;
  correlationId: string;
  /** Id that partners see. */
  eventId: string;
  eventStream: string;
  eventRevision: bigint;
  traceparent?: string | null | undefined;
}

export interface FailurePeriod {
  /** Time of the first failed attempt. */
  sinceMs: number;
  failedAttempts: number;
}

/** SQL columns of a delivery `d` that describe the current round, under the names in {@link DeliveryRound}. */
export const DELIVERY_ROUND_COLUMNS = `d.delivery_id AS "deliveryId", d.endpoint_id AS "endpointId",
  d.clinic_id AS "clinicId", d.environment, d.cause_id AS "causeId", d.correlation_id AS "correlationId",
  d.event_id AS "eventId", d.event_stream AS "eventStream", d.event_revision AS "eventRevision"`;

/** An event that waits in the outbox to be appended to a stream of the log. */
export interface OutboxEvent extends NewEvent {
  stream: string;
}

export function createDeliveryFailedEvent(round: DeliveryRound, attempts: number, now: number): OutboxEvent {
  const { deliveryId, endpointId } = round;
  const data = { deliveryId, endpointId, attempts, source: toDeliverySource(round) };
  return createRoundEvent(round, { type: "WebhookDeliveryFailed", data }, now);
}

export function createDeliverySkippedEvent(round: DeliveryRound, now: number): OutboxEvent {
  const { deliveryId, endpointId } = round;
  const data = { deliveryId, endpointId, source: toDeliverySource(round) };
  return createRoundEvent(round, { type: "WebhookDeliverySkipped", data }, now);
}

type ExpiredRequest = Pick<
  ReplayMessage,
  "deliveryId" | "endpointId" | "requestId" | "correlationId" | "clinicId" | "environment"
> &
  Pick<DeliveryRound, "traceparent">;

/** Reports that a delivery cannot be replayed, because its event or endpoint no longer exists. */
export function createDeliveryExpiredEvent(request: ExpiredRequest, now: number): OutboxEvent {
  const { deliveryId, endpointId, requestId } = request;
  const stream = toStreamName(webhookDeliveryStreams, deliveryId);
  const event = { type: "WebhookDeliveryExpired", data: { deliveryId, endpointId } } as const;
  return createOutboxEvent(requestId, stream, event, { ...request, causeId: requestId }, now);
}

export function createEndpointDisabledEvent(
  round: DeliveryRound,
  reason: "gone" | "no_success",
  now: number,
): OutboxEvent {
  const { endpointId } = round;
  const stream = toStreamName(webhookEndpointStreams, endpointId);
  return createRoundEvent(round, { type: "WebhookEndpointDisabled", data: { endpointId, reason } }, now, stream);
}

/** All events of an endpoint and day (UTC) have the same id, so the log gets only the first. */
export function createFailureReportedEvent(
  round: DeliveryRound,
  failurePeriod: FailurePeriod,
  now: number,
): OutboxEvent {
  const { endpointId } = round;
  const data = { endpointId, since: toInstant(failurePeriod.sinceMs), failedAttempts: failurePeriod.failedAttempts };
  const event = { type: "WebhookEndpointFailureReported", data } as const;
  const sourceId = `${endpointId} ${toInstant(now).slice(0, 10)}`;
  return createOutboxEvent(sourceId, toStreamName(webhookEndpointStreams, endpointId), event, round, now);
}

export interface ReplayedRound extends DeliveryRound {
  replayId: string;
  requestId: string;
}

/** Uses the round's cause as the id of the event. */
export function createReplayRequestedEvent(round: ReplayedRound, now: number): OutboxEvent {
  const { deliveryId, endpointId, replayId, causeId, requestId } = round;
  const data = { deliveryId, endpointId, replayId, source: toDeliverySource(round) };
  const event = { type: "WebhookDeliveryReplayRequested", data } as const;
  const stream = toStreamName(webhookDeliveryStreams, deliveryId);
  return { ...createOutboxEvent(causeId, stream, event, { ...round, causeId: requestId }, now), id: causeId };
}

interface EndedReplay {
  replayId: string;
  endpointId: string;
  clinicId: string | null;
  environment: Environment;
  requestId: string;
  correlationId: string;
}

export function createReplayCompletedEvent(
  replay: EndedReplay,
  progress: { outcome: ReplayOutcome | null; replayedCount: number; notReplayedCount: number },
  now: number,
): OutboxEvent {
  const { replayId, endpointId, requestId: causeId } = replay;
  const { outcome, replayedCount, notReplayedCount } = progress;
  const data = { replayId, endpointId, outcome: outcome ?? "completed", replayedCount, notReplayedCount };
  const event = { type: "WebhookReplayCompleted", data } as const;
  return createOutboxEvent(replayId, toStreamName(webhookReplayStreams, replayId), event, { ...replay, causeId }, now);
}

export interface ExpiringSecret {
  endpointId: string;
  clinicId: string | null;
  environment: Environment;
  secretId: string;
  expiresAt: Instant;
  rotationId: string;
  correlationId: string;
}

/** All events of a secret have the same id, so the log gets only the first. */
export function createExpiryReportedEvent(expiringSecret: ExpiringSecret, now: number): OutboxEvent {
  const { endpointId, secretId, expiresAt, rotationId: causeId } = expiringSecret;
  const event = { type: "WebhookSecretExpiryReported", data: { endpointId, secretId, expiresAt } } as const;
  const stream = toStreamName(webhookEndpointStreams, endpointId);
  return createOutboxEvent(secretId, stream, event, { ...expiringSecret, causeId }, now);
}

function toDeliverySource({ eventId, eventStream, eventRevision }: DeliveryRound): DeliverySource {
  return { eventId, stream: eventStream, revision: Number(eventRevision) };
}

function createRoundEvent(
  round: DeliveryRound,
  event: CatalogEvent,
  now: number,
  stream = toStreamName(webhookDeliveryStreams, round.deliveryId),
): OutboxEvent {
  return createOutboxEvent(deriveWebhookDeliveryId(round.causeId, round.endpointId), stream, event, round, now);
}

/**
 * The event's id is derived from the id of the round or request and the event type, so the log gets each type only once.
 */
function createOutboxEvent(
  sourceId: string,
  stream: string,
  event: CatalogEvent,
  context: Pick<DeliveryRound, "causeId" | "traceparent"> &
    Pick<ReplayMessage, "correlationId" | "clinicId" | "environment">,
  now: number,
): OutboxEvent {
  const { causeId, correlationId, clinicId, environment, traceparent } = context;
  const metadata = {
    $correlationId: correlationId,
    $causationId: causeId,
    clinicId,
    environment,
    actor: { type: "system" as const, id: "webhooks" },
    occurredAt: toInstant(now),
    ...(traceparent && { traceparent }),
  };
  return { id: deriveConsequenceId(sourceId, event.type, 0), stream, event, metadata };
}

/**
 * Adds events to the outbox. Must run in the transaction that changes the deliveries. If earlier events of a stream are
 * tried again later, the new event waits, too.
 */
export async function addToOutbox(client: pg.ClientBase, outboxEvents: readonly OutboxEvent[]): Promise<void> {
  if (outboxEvents.length === 0) return;
  await client.query({
    name: "add outbox events",
    text: `INSERT INTO webhooks.outbox (event_id, stream, event, metadata, created_at, next_try_at)
           SELECT event_id, stream, event, metadata, (metadata->>'occurredAt')::timestamptz,
                  COALESCE((SELECT max(o.next_try_at) FROM webhooks.outbox o WHERE o.stream = f.stream), '-infinity')
             FROM unnest($1::uuid[], $2::text[], $3::jsonb[], $4::jsonb[]) AS f (event_id, stream, event, metadata)
           ON CONFLICT DO NOTHING`,
    values: [
      outboxEvents.map(({ id }) => id),
      outboxEvents.map(({ stream }) => stream),
      outboxEvents.map(({ event }) => JSON.stringify(event)),
      outboxEvents.map(({ metadata }) => JSON.stringify(metadata)),
    ],
  });
}

/**
 * Runs work in one transaction. Any error rolls the transaction back. The first statement of the work is sent together
 * with BEGIN.
 */
export async function inTransaction<T>(pool: pg.Pool, run: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let connectionError: Error | undefined;
  try {
    const [, result] = await awaitPipelined([client.query("BEGIN"), run(client)]);
    await client.query("COMMIT");
    return result;
  } catch (error) {
    if (isPostgresUnavailable(error)) connectionError = error as Error;
    // If the connection breaks, the server rolls back by itself. Errors of ROLLBACK are ignored, because they would
    // hide the original error.
    else await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  } finally {
    client.release(connectionError);
  }
}
