import { StreamDeletedError } from "@eventstore/db-client";
import { type AppointmentEvent, appointmentCategory } from "../../shared/domain/events/appointment.ts";
import type { CatalogEventType } from "../../shared/domain/events/catalog.ts";
import type { Category } from "../../shared/domain/events/category.ts";
import { parkingCategory } from "../../shared/domain/events/parking.ts";
import { webhookDeliveryCategory, webhookEndpointCategory } from "../../shared/domain/events/partner.ts";
import { EventSchemaError } from "../../shared/domain/events/stored-event.ts";
import type { EventLog, RecordedEvent } from "../../shared/eventstore/log.ts";
import { toTestBody, toWebhookBody } from "../../shared/partner-api/webhook-body.ts";
import { eventMessage, type Outgoing } from "./message.ts";

/** The relay follows these. Operators' acts change what it passes over. */
export const relayedCategories: readonly Category[] = [
  appointmentCategory,
  webhookEndpointCategory,
  webhookDeliveryCategory,
  parkingCategory,
];

/**
 * Events that partners are not told. Resources are not part of the appointment that partners know. An imported
 * appointment is history: partners are told when it changes next.
 */
const NOT_SENT: readonly CatalogEventType[] = [
  "AppointmentImported",
  "ResourceAllocated",
  "ResourceReleased",
];

/** The appointment's events that partners are told. */
const SENT = new Set<CatalogEventType>(
  (Object.keys(appointmentCategory.events) as AppointmentEvent["type"][]).filter(
    (type) => !NOT_SENT.includes(type),
  ),
);

/** An event that the relay cannot map. It stops there: what comes after must not overtake it. */
export class RelayFailure extends Error {
  override readonly name = "RelayFailure";
}

/**
 * What goes onto JetStream for an event; undefined where partners are told nothing of it. An event that changes an
 * appointment is told with the appointment as it was then, so its stream is read up to that event.
 *
 * @throws {RelayFailure} naming the event's place
 * @throws {LogUnavailable}
 */
export async function toMessage(log: EventLog, event: RecordedEvent): Promise<Outgoing | undefined> {
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
    // What no waiting mends: an event of the stream that cannot be read, or a stream that is gone for ever.
    const isFinal = cause instanceof EventSchemaError || cause instanceof StreamDeletedError;
    throw isFinal ? new RelayFailure(`${place}: ${cause.message}`, { cause }) : cause;
  });
  const last = history.at(-1);
  if (last?.id !== event.id) throw new RelayFailure(`${place}: the stream does not end in the event`);
  try {
    return toWebhookBody(history);
  } catch (cause) {
    throw new RelayFailure(`${place}: no public event follows from ${event.type}`, { cause });
  }
}

async function historyUpTo(log: EventLog, event: RecordedEvent): Promise<RecordedEvent<AppointmentEvent>[]> {
  return event.type === "AppointmentRequested"
    ? [event]
    : log.read<AppointmentEvent>(event.stream, event.revision);
}

function toReplayMessage(event: RecordedEvent & { type: "WebhookDeliveryReplayRequested" }): Outgoing {
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
