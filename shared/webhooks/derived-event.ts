import type { CatalogEvent } from "../domain/events/catalog.ts";
import { deriveConsequenceId } from "../domain/events/ids.ts";
import type { WebhookEndpointEvent } from "../domain/events/partner.ts";
import type { RecordedEvent } from "../domain/events/recorded-event.ts";
import { type Endpoint, endpointAggregate } from "../domain/partner/webhook-endpoint.ts";
import type { Instant } from "../domain/time/rfc3339.ts";
import { type EventLog, LogUnavailableError, WrongExpectedRevisionError } from "../eventstore/log.ts";

/** An event derived from webhook tables in Postgres. The log may already contain the event. */
export interface DerivedEvent {
  stream: string;
  event: CatalogEvent;
  /** The id of the event is derived from its type and this source, so the log gets only one such event. */
  source: string;
  causeId: string;
  correlationId: string;
  occurredAt: Instant;
  /** If set, the event is obsolete unless the endpoint has been active since this time. */
  activeSince?: Instant;
}

/**
 * Selects a {@link DerivedEvent} for each failing endpoint. The event disables the endpoint, at most once per failure
 * period, or only reports the failures, at most once per day (UTC).
 */
export const SELECT_FAILURES_SQL = `
  SELECT 'webhookEndpoint-' || endpoint_id AS stream, cause_id AS "causeId", correlation_id AS "correlationId",
         rfc3339(last_failed_at) AS "occurredAt", rfc3339(since) AS "activeSince",
         endpoint_id || ' ' || CASE WHEN is_disabled THEN rfc3339(since) ELSE left(rfc3339(last_failed_at), 10) END AS source,
         CASE WHEN is_disabled
           THEN json_build_object('type', 'WebhookEndpointDisabled', 'data', json_build_object(
             'endpointId', endpoint_id, 'reason', CASE WHEN is_gone THEN 'gone' ELSE 'no_success' END))
           ELSE json_build_object('type', 'WebhookEndpointFailureReported', 'data', json_build_object(
             'endpointId', endpoint_id, 'since', rfc3339(since), 'failedAttempts', failures)) END AS event
    FROM webhooks.failing_endpoint`;

/** Maximum number of tries to append one event while other writers append to the same stream. */
const MAX_APPEND_TRIES = 10;

/**
 * Appends a derived event, unless it is obsolete, or its stream already contains it.
 *
 * @returns false if the stream is empty, for example because it was deleted
 * @throws {LogUnavailableError}
 */
export async function appendDerivedEvent(log: EventLog, derivedEvent: DerivedEvent): Promise<boolean> {
  const { stream, event, source, causeId, correlationId, occurredAt } = derivedEvent;
  const id = deriveConsequenceId(source, event.type, 0);
  for (let tryCount = 1; ; tryCount += 1) {
    try {
      const events = await log.read<CatalogEvent>(stream);
      const lastEvent = events.at(-1);
      if (!lastEvent) return false;
      if (events.some((recordedEvent) => recordedEvent.id === id) || isObsolete(derivedEvent, events)) return true;
      const { clinicId, environment } = lastEvent.metadata;
      const actor = { type: "system" as const, id: "webhooks" };
      const ids = { $correlationId: correlationId, $causationId: causeId };
      const metadata = { ...ids, actor, clinicId, environment, occurredAt };
      await log.append(stream, lastEvent.revision, [{ id, event, metadata }]);
      return true;
    } catch (error) {
      // A connection may break during one call.
      if (error instanceof LogUnavailableError && tryCount === 1) continue;
      if (!(error instanceof WrongExpectedRevisionError) || tryCount === MAX_APPEND_TRIES) throw error;
    }
  }
}

function isObsolete({ activeSince }: DerivedEvent, events: readonly RecordedEvent[]): boolean {
  if (activeSince === undefined) return false;
  const endpointEvents = events as readonly RecordedEvent<WebhookEndpointEvent>[];
  const endpoint = endpointEvents.reduce<Endpoint | undefined>(endpointAggregate.evolve, undefined);
  return endpoint?.status !== "active" || endpoint.enabledAt > activeSince;
}
