import type { Appointment } from "../../shared/domain/appointment/appointment.ts";
import { type AppointmentEvent, appointmentStreams } from "../../shared/domain/events/appointment.ts";
import { type Category, toStreamName } from "../../shared/domain/events/category.ts";
import { animalConsentStreams } from "../../shared/domain/events/consent.ts";
import {
  applicationEventType,
  type InstallationEvent,
  installationStreams,
  partnerApplicationStreams,
  type WebhookEndpointEvent,
  webhookDeliveryStreams,
  webhookEndpointStreams,
} from "../../shared/domain/events/partner.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { type Installation, installationAggregate } from "../../shared/domain/partner/installation.ts";
import { describeLogPosition } from "../../shared/eventstore/subscription.ts";
import { toAccessBody } from "../../shared/partner-api/feed-event.ts";
import { getPublicType } from "../../shared/partner-api/public-event.ts";
import { isOperational, toOperationalEvent, toTestBody, toWebhookBody } from "../../shared/partner-api/webhook-body.ts";
import { type EventHistories, isSentAppointmentEvent, RelayError } from "./event-histories.ts";
import { createEventMessage, type OutgoingMessage, REPLAY_SUBJECT } from "./message.ts";

/** Categories of the streams whose events can have messages. */
const MESSAGE_CATEGORIES: readonly Category[] = [
  appointmentStreams,
  webhookEndpointStreams,
  webhookDeliveryStreams,
  installationStreams,
  animalConsentStreams,
];

/** Categories of the streams whose events can revoke the permission to send deliveries. */
const REVOKING_CATEGORIES: readonly Category[] = [
  partnerApplicationStreams,
  installationStreams,
  webhookEndpointStreams,
  animalConsentStreams,
];

/** Stream categories that the relay reads. */
export const relayedCategories: readonly Category[] = [...new Set([...MESSAGE_CATEGORIES, ...REVOKING_CATEGORIES])];

const isInCategory = (stream: string, categories: readonly Category[]) =>
  categories.some((category) => stream.startsWith(toStreamName(category, "")));

/** Returns true for a stream whose events can have messages. */
export const hasMessages = (stream: string) => isInCategory(stream, MESSAGE_CATEGORIES);

/** Returns true for a stream whose events can revoke the permission to send deliveries. */
export const canRevoke = (stream: string) => isInCategory(stream, REVOKING_CATEGORIES);

/**
 * Maps an event to a message. The message of an appointment event contains the appointment as of that event. If
 * `histories` does not know the appointment, the function reads the appointment's stream up to that event. Call it with
 * the events of a stream in order.
 *
 * @returns undefined if the event is not sent to partners
 * @throws {RelayError} with position, stream and revision of the event, or of an earlier event of its stream
 * @throws {LogUnavailableError}
 */
export async function toMessage(histories: EventHistories, event: RecordedEvent): Promise<OutgoingMessage | undefined> {
  if (event.type === "WebhookDeliveryReplayRequested") {
    // If the request is a part of a replay of several deliveries, its round has already started.
    return event.data.replayId === undefined ? toReplayMessage(event) : undefined;
  }
  const { position, stream, revision, metadata } = event;
  const sourceEvent = { position, stream, revision, correlationId: metadata.$correlationId };
  if (event.type === "WebhookEndpointTested") {
    const testBody = toTestBody(event);
    const { endpointId: onlyEndpointId, applicationId: onlyApplicationId } = event.data;
    return testBody && createEventMessage(sourceEvent, testBody, { onlyEndpointId, onlyApplicationId });
  }
  if (isOperational(event)) {
    const operationalEvent = toOperationalEvent(await histories.readUpTo<WebhookEndpointEvent>(event));
    if (!operationalEvent) return undefined;
    const { body, ...recipients } = operationalEvent;
    return createEventMessage(sourceEvent, body, recipients);
  }
  if (applicationEventType.safeParse(getPublicType(event.type)).success) {
    const body = toAccessBody(event);
    return (
      body && createEventMessage(sourceEvent, body, { onlyApplicationId: await findApplicationId(histories, event) })
    );
  }
  if (!isAppointmentEvent(event)) return undefined;
  if (!isSentAppointmentEvent(event)) return histories.passAppointmentEvent(event);
  const { appointment, lastSentEvent: previousEvent } = await histories.readStateBefore(event);
  const body = createWebhookBody(appointment, event);
  return body && createEventMessage(sourceEvent, body, { previousEvent });
}

/** Returns the application whose access an event changes. Later events of an installation do not contain its id. */
async function findApplicationId(histories: EventHistories, event: RecordedEvent): Promise<string | null> {
  if ("applicationId" in event.data) return event.data.applicationId;
  const history = await histories.readUpTo<InstallationEvent>(event);
  return history.reduce<Installation | undefined>(installationAggregate.evolve, undefined)?.applicationId ?? null;
}

function isAppointmentEvent(event: RecordedEvent): event is RecordedEvent<AppointmentEvent> {
  return event.type in appointmentStreams.events;
}

function createWebhookBody(formerAppointment: Appointment | undefined, event: RecordedEvent<AppointmentEvent>) {
  try {
    return toWebhookBody(formerAppointment, event);
  } catch (cause) {
    throw new RelayError(`${describeLogPosition(event)}: ${event.type} cannot be mapped to a public event`, { cause });
  }
}

function toReplayMessage(event: RecordedEvent & { type: "WebhookDeliveryReplayRequested" }): OutgoingMessage {
  return {
    id: event.id,
    subject: REPLAY_SUBJECT,
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
