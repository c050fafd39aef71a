import { StreamDeletedError } from "@eventstore/db-client";
import { type AppointmentEvent, appointmentStreams } from "../../shared/domain/events/appointment.ts";
import type { CatalogEvent, CatalogEventType } from "../../shared/domain/events/catalog.ts";
import type { Category } from "../../shared/domain/events/category.ts";
import {
  type WebhookEndpointEvent,
  webhookDeliveryStreams,
  webhookEndpointStreams,
} from "../../shared/domain/events/partner.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { EventSchemaError } from "../../shared/domain/events/stored-event.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { describeLogPosition } from "../../shared/eventstore/subscription.ts";
import { isOperational, toOperationalEvent, toTestBody, toWebhookBody } from "../../shared/partner-api/webhook-body.ts";
import { createEventMessage, type OutgoingMessage } from "./message.ts";

/** Stream categories that the relay reads. */
export const relayedCategories: readonly Category[] = [
  appointmentStreams,
  webhookEndpointStreams,
  webhookDeliveryStreams,
];

/**
 * Appointment events that are not sent to partners. Partners do not see an appointment's resources. For an imported
 * appointment, partners receive only the changes after the import.
 */
const UNSENT_EVENT_TYPES: readonly CatalogEventType[] = [
  "AppointmentImported",
  "ResourceAllocated",
  "ResourceReleased",
  "AppointmentDataErased",
];

const SENT_EVENT_TYPES = new Set<CatalogEventType>(
  (Object.keys(appointmentStreams.events) as AppointmentEvent["type"][]).filter(
    (type) => !UNSENT_EVENT_TYPES.includes(type),
  ),
);

export class RelayError extends Error {
  override readonly name = "RelayError";
}

/**
 * Maps an event to a message. The message of an appointment event contains the appointment as of that event. To build
 * the appointment, the function reads the appointment's stream up to that event.
 *
 * @returns undefined if the event is not sent to partners
 * @throws {RelayError} with position, stream and revision of the event
 * @throws {LogUnavailableError}
 */
export async function toMessage(log: EventLog, event: RecordedEvent): Promise<OutgoingMessage | undefined> {
  if (event.type === "WebhookDeliveryReplayRequested") {
    // If the request is a part of a replay of several deliveries, its round has already started.
    return event.data.replayId === undefined ? toReplayMessage(event) : undefined;
  }
  const { position, stream, revision, metadata } = event;
  const sourceEvent = { position, stream, revision, correlationId: metadata.$correlationId };
  if (event.type === "WebhookEndpointTested") {
    const testBody = toTestBody(event);
    return testBody && createEventMessage(sourceEvent, testBody, { onlyEndpointId: event.data.endpointId });
  }
  if (isOperational(event)) {
    const operationalEvent = toOperationalEvent(await readHistory<WebhookEndpointEvent>(log, event));
    if (!operationalEvent) return undefined;
    const { body, ...recipients } = operationalEvent;
    return createEventMessage(sourceEvent, body, recipients);
  }
  if (!SENT_EVENT_TYPES.has(event.type)) return undefined;
  const history = await readHistory<AppointmentEvent>(log, event);
  const body = createWebhookBody(history, event);
  const previousEvent = history.slice(0, -1).findLast(({ type }) => SENT_EVENT_TYPES.has(type));
  return body && createEventMessage(sourceEvent, body, { previousEvent });
}

function createWebhookBody(history: readonly RecordedEvent<AppointmentEvent>[], event: RecordedEvent) {
  try {
    return toWebhookBody(history);
  } catch (cause) {
    throw new RelayError(`${describeLogPosition(event)}: ${event.type} cannot be mapped to a public event`, { cause });
  }
}

/**
 * Reads the stream of an event up to the event.
 *
 * @throws {RelayError} if the stream cannot be read, or does not end with the event
 */
async function readHistory<Event extends CatalogEvent>(
  log: EventLog,
  event: RecordedEvent,
): Promise<RecordedEvent<Event>[]> {
  const positionText = describeLogPosition(event);
  const history = await readUpTo<Event>(log, event).catch((cause: unknown) => {
    // A retry cannot succeed if an event of the stream is unreadable or the stream was deleted.
    const isFinal = cause instanceof EventSchemaError || cause instanceof StreamDeletedError;
    throw isFinal ? new RelayError(`${positionText}: ${cause.message}`, { cause }) : cause;
  });
  if (history.at(-1)?.id !== event.id) throw new RelayError(`${positionText}: the stream does not end with this event`);
  return history;
}

async function readUpTo<Event extends CatalogEvent>(
  log: EventLog,
  event: RecordedEvent,
): Promise<RecordedEvent<Event>[]> {
  if (event.revision === 0n) return [event as unknown as RecordedEvent<Event>];
  return log.read<Event>(event.stream, event.revision);
}

function toReplayMessage(event: RecordedEvent & { type: "WebhookDeliveryReplayRequested" }): OutgoingMessage {
  return {
    id: event.id,
    subject: "replay",
    message: {
      kind: "replay",
      position: String(event.position),
      requestId: event.id,
      correlationId: event.metadata.$correlationId,
      deliveryId: event.data.deliveryId,
      endpointId: event.data.endpointId,
      clinicId: event.metadata.clinicId,
      environment: event.metadata.environment,
    },
  };
}
