import { StreamDeletedError } from "@eventstore/db-client";
import { type AppointmentEvent, appointmentCategory } from "../../shared/domain/events/appointment.ts";
import type { CatalogEventType } from "../../shared/domain/events/catalog.ts";
import type { Category } from "../../shared/domain/events/category.ts";
import { parkingCategory } from "../../shared/domain/events/parking.ts";
import { webhookDeliveryCategory, webhookEndpointCategory } from "../../shared/domain/events/partner.ts";
import { EventSchemaError } from "../../shared/domain/events/stored-event.ts";
import type { EventLog, RecordedEvent } from "../../shared/eventstore/log.ts";
import { toTestBody, toWebhookBody } from "../../shared/partner-api/webhook-body.ts";
import { eventMessage, type OutgoingMessage } from "./message.ts";

/** Categories that the relay reads. Parking events change which streams it skips. */
export const relayedCategories: readonly Category[] = [
  appointmentCategory,
  webhookEndpointCategory,
  webhookDeliveryCategory,
  parkingCategory,
];

/**
 * Appointment events that are not sent to partners. Resources are not part of the public appointment. An imported
 * appointment is history: partners get its next change.
 */
const NOT_SENT: readonly CatalogEventType[] = [
  "AppointmentImported",
  "ResourceAllocated",
  "ResourceReleased",
];

/** Appointment events that are sent to partners. */
const SENT = new Set<CatalogEventType>(
  (Object.keys(appointmentCategory.events) as AppointmentEvent["type"][]).filter(
    (type) => !NOT_SENT.includes(type),
  ),
);

/** The relay cannot map an event to a message. */
export class RelayError extends Error {
  override readonly name = "RelayError";
}

/**
 * Maps an event to a message. The message of an appointment event contains the appointment as of that event, so its stream
 * is read up to there.
 *
 * @returns undefined if the event is not sent to partners
 * @throws {RelayError} with the place of the event
 * @throws {LogUnavailableError}
 */
export async function toMessage(log: EventLog, event: RecordedEvent): Promise<OutgoingMessage | undefined> {
  if (event.type === "WebhookDeliveryReplayRequested") return toReplayMessage(event);
  const { position, stream, revision, metadata } = event;
  const at = { position, stream, revision, correlationId: metadata.$correlationId };
  if (event.type === "WebhookEndpointTested") {
    const test = toTestBody(event);
    return test && eventMessage(at, test, event.data.endpointId);
  }
  if (!SENT.has(event.type)) return undefined;
  const body = await webhookBodyOf(log, event);
  return body && eventMessage(at, body);
}

async function webhookBodyOf(log: EventLog, event: RecordedEvent) {
  const place = `position ${event.position}, stream ${event.stream}, revision ${event.revision}`;
  const history = await historyUpTo(log, event).catch((cause: unknown) => {
    // Waiting does not help if an event of the stream is unreadable or the stream was deleted.
    const isFinal = cause instanceof EventSchemaError || cause instanceof StreamDeletedError;
    throw isFinal ? new RelayError(`${place}: ${cause.message}`, { cause }) : cause;
  });
  const last = history.at(-1);
  if (last?.id !== event.id) throw new RelayError(`${place}: the stream does not end with this event`);
  try {
    return toWebhookBody(history);
  } catch (cause) {
    throw new RelayError(`${place}: ${event.type} cannot be mapped to a public event`, { cause });
  }
}

async function historyUpTo(log: EventLog, event: RecordedEvent): Promise<RecordedEvent<AppointmentEvent>[]> {
  return event.type === "AppointmentRequested"
    ? [event]
    : log.read<AppointmentEvent>(event.stream, event.revision);
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
