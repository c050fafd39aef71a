import { StreamDeletedError } from "@eventstore/db-client";
import type pg from "pg";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { type EventLog, WrongExpectedRevisionError } from "../../../shared/eventstore/log.ts";
import type { OutboxEvent } from "./outbox.ts";

const MAX_EVENTS = 200;

const MAX_CONCURRENT_STREAMS = 16;

/** Maximum number of tries to append one event while other writers append to the same stream. */
const MAX_APPEND_TRIES = 10;

interface DrainOptions {
  pool: pg.Pool;
  log: EventLog;
  /** Throws an error if the database was not built from this log. */
  requireLog(): Promise<void>;
  /** Called with each event that is discarded, because its stream was deleted. */
  onDiscarded(outboxEvent: OutboxEvent): void;
}

/**
 * Appends the oldest events of the outbox to the log, and removes them from the outbox. Events that are obsolete, or
 * that the log already holds, are removed without being appended. Events of a deleted stream are discarded, because no
 * retry can succeed.
 *
 * @returns true if the outbox may contain more events
 * @throws {LogUnavailableError}
 * @throws {DifferentLogError} if the database was not built from this log; in this case, appends no event
 */
export async function drainOutbox({ pool, log, requireLog, onDiscarded }: DrainOptions): Promise<boolean> {
  const { rows } = await pool.query<{ id: string } & Omit<OutboxEvent, "id">>({
    name: "oldest outbox events",
    text: `SELECT event_id AS id, stream, event, metadata FROM webhooks.outbox
            ORDER BY created_at, event_id LIMIT ${MAX_EVENTS}`,
  });
  if (rows.length > 0) await requireLog();
  const eventsByStream = new Map<string, OutboxEvent[]>();
  for (const outboxEvent of rows)
    eventsByStream.set(outboxEvent.stream, [...(eventsByStream.get(outboxEvent.stream) ?? []), outboxEvent]);
  const eventGroups = [...eventsByStream.values()];
  const appendGroups = async () => {
    for (let outboxEvents = eventGroups.pop(); outboxEvents; outboxEvents = eventGroups.pop()) {
      for (const outboxEvent of outboxEvents)
        if (!(await appendOutboxEvent(log, outboxEvent))) onDiscarded(outboxEvent);
      await pool.query("DELETE FROM webhooks.outbox WHERE event_id = ANY ($1::uuid[])", [
        outboxEvents.map(({ id }) => id),
      ]);
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT_STREAMS }, appendGroups));
  return rows.length === MAX_EVENTS;
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
      if (error instanceof StreamDeletedError) return false;
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
  const lastEvent = events.findLast(({ type }) => /^WebhookEndpoint(Disabled|Enabled|Revoked)$/.test(type));
  if (!lastEvent) return false;
  return lastEvent.type !== "WebhookEndpointEnabled" || lastEvent.metadata.occurredAt > metadata.occurredAt;
}
