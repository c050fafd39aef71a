import { StreamDeletedError } from "@eventstore/db-client";
import { type AppointmentEvent, appointmentCategory } from "../../../shared/domain/events/appointment.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { type WebhookEndpointEvent, webhookEndpointCategory } from "../../../shared/domain/events/partner.ts";
import type { EventLog, RecordedEvent } from "../../../shared/eventstore/log.ts";
import { toOperationalEvent } from "../../../shared/partner-api/operational-body.ts";
import { toTestBody, toWebhookBody, type WebhookBody } from "../../../shared/partner-api/webhook-body.ts";

/**
 * Creates the webhook body of a stored event.
 *
 * @returns undefined if the event does not exist or is not public
 * @throws {LogUnavailableError}
 * @throws {EventSchemaError} if the event or an earlier event of its stream is unreadable
 */
export async function createWebhookBody(
  log: EventLog,
  { stream, revision }: { stream: string; revision: bigint },
): Promise<WebhookBody | undefined> {
  const history = await readStream(log, stream, revision);
  const lastEvent = history.at(-1);
  if (lastEvent?.revision !== revision) return undefined;
  if (lastEvent.type === "WebhookEndpointTested") return toTestBody(lastEvent);
  if (isAppointmentHistory(history)) return toWebhookBody(history);
  return isEndpointHistory(history) ? toOperationalEvent(history)?.body : undefined;
}

function isAppointmentHistory(history: RecordedEvent[]): history is RecordedEvent<AppointmentEvent>[] {
  return history.every(({ type }) => type in appointmentCategory.events);
}

function isEndpointHistory(history: RecordedEvent[]): history is RecordedEvent<WebhookEndpointEvent>[] {
  return history.every(({ type }) => type in webhookEndpointCategory.events);
}

/** Reads a stream up to a revision. Returns no events if the stream was deleted or never existed. */
export async function readStream<Event extends CatalogEvent>(
  log: EventLog,
  stream: string,
  lastRevision?: bigint,
): Promise<RecordedEvent<Event>[]> {
  try {
    return await log.read<Event>(stream, lastRevision);
  } catch (error) {
    if (error instanceof StreamDeletedError) return [];
    throw error;
  }
}
