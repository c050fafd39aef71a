import type pg from "pg";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { WebhookEndpointEvent } from "../../../shared/domain/events/partner.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { type Endpoint, endpointAggregate } from "../../../shared/domain/partner/webhook-endpoint.ts";
import { type EventLog, LogUnavailableError, WrongExpectedRevisionError } from "../../../shared/eventstore/log.ts";
import { isLogAvailable } from "../../../shared/eventstore/stream-failure.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import type { OutboxEvent } from "./outbox.ts";

const MAX_EVENTS = 200;

const MAX_CONCURRENT_STREAMS = 16;

/** Maximum number of tries to append one event while other writers append to the same stream. */
const MAX_APPEND_TRIES = 10;

/** Time after which the events of a stream that cannot be read or extended are tried again. */
const RETRY_INTERVAL_S = 60;

interface DrainOptions {
  pool: pg.Pool;
  log: EventLog;
  logger: Logger;
  /** Throws an error if the database was not built from this log. */
  requireLog(): Promise<void>;
  /** Called with each event that is discarded, because its stream was deleted. */
  onDiscarded(outboxEvent: OutboxEvent): void;
}

/**
 * Appends the oldest events of the outbox to the log, and removes them from the outbox. Events that are obsolete, or
 * that the log already holds, are removed without being appended. Events of a deleted stream are discarded, because no
 * retry can succeed. If a stream cannot be read or extended, its events wait for a minute, and no others.
 *
 * @returns true if the outbox may contain more events
 * @throws {LogUnavailableError} if no stream can be read
 * @throws {DifferentLogError} if the database was not built from this log; in this case, appends no event
 */
export async function drainOutbox({ pool, log, logger, requireLog, onDiscarded }: DrainOptions): Promise<boolean> {
  const { rows } = await pool.query<{ id: string } & Omit<OutboxEvent, "id">>({
    name: "oldest outbox events",
    text: `SELECT event_id AS id, stream, event, metadata FROM webhooks.outbox
            WHERE next_try_at <= now()
            ORDER BY created_at, event_id LIMIT ${MAX_EVENTS}`,
  });
  if (rows.length > 0) await requireLog();
  const eventsByStream = new Map<string, OutboxEvent[]>();
  for (const outboxEvent of rows)
    eventsByStream.set(outboxEvent.stream, [...(eventsByStream.get(outboxEvent.stream) ?? []), outboxEvent]);
  const eventGroups = eventsByStream.entries();
  const appendGroups = async () => {
    for (const [stream, outboxEvents] of eventGroups) {
      try {
        for (const outboxEvent of outboxEvents)
          if (!(await appendOutboxEvent(log, outboxEvent))) onDiscarded(outboxEvent);
      } catch (error) {
        if (error instanceof LogUnavailableError && !(await isLogAvailable(log))) throw error;
        logger.error({ error, stream }, "Events in the outbox cannot be appended. They are tried again in a minute.");
        await postpone(pool, stream);
        continue;
      }
      // A row that somebody has locked is deleted later, because the log holds its event only once.
      await pool.query(
        `DELETE FROM webhooks.outbox WHERE event_id IN (
           SELECT event_id FROM webhooks.outbox WHERE event_id = ANY ($1::uuid[]) FOR UPDATE SKIP LOCKED)`,
        [outboxEvents.map(({ id }) => id)],
      );
    }
  };
  const workers = await Promise.allSettled(Array.from({ length: MAX_CONCURRENT_STREAMS }, appendGroups));
  const failure = workers.find((worker) => worker.status === "rejected");
  if (failure) throw failure.reason;
  return rows.length === MAX_EVENTS;
}

/** Postpones all events of the stream, so that they keep their order. Later events of the stream wait for them. */
async function postpone(pool: pg.Pool, stream: string): Promise<void> {
  await pool.query(
    `UPDATE webhooks.outbox SET next_try_at = now() + interval '${RETRY_INTERVAL_S} seconds'
      WHERE event_id IN (SELECT event_id FROM webhooks.outbox WHERE stream = $1 FOR UPDATE SKIP LOCKED)`,
    [stream],
  );
}

/** @returns false if the stream was deleted */
async function appendOutboxEvent(log: EventLog, outboxEvent: OutboxEvent): Promise<boolean> {
  for (let tryCount = 1; ; tryCount += 1) {
    try {
      const events = await log.read<CatalogEvent>(outboxEvent.stream);
      if (!isSettled(events, outboxEvent))
        await log.append(outboxEvent.stream, events.at(-1)?.revision ?? -1n, [outboxEvent]);
      return true;
    } catch (error) {
      if (error instanceof DomainError && error.code === "object_deleted") return false;
      // A connection may break during one call.
      if (error instanceof LogUnavailableError && tryCount === 1) continue;
      if (!(error instanceof WrongExpectedRevisionError) || tryCount === MAX_APPEND_TRIES) throw error;
    }
  }
}

/**
 * Returns true if the log already holds the outbox event, or if the event would disable an endpoint that is already
 * disabled, is revoked, or was enabled after the event occurred.
 */
function isSettled(events: readonly RecordedEvent[], { id, event, metadata }: OutboxEvent): boolean {
  if (events.some((recordedEvent) => recordedEvent.id === id)) return true;
  if (event.type !== "WebhookEndpointDisabled") return false;
  const endpointEvents = events as RecordedEvent<WebhookEndpointEvent>[];
  const endpoint = endpointEvents.reduce<Endpoint | undefined>(endpointAggregate.evolve, undefined);
  return endpoint !== undefined && (endpoint.status !== "active" || endpoint.enabledAt > metadata.occurredAt);
}
