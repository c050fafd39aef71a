import { type AppointmentEvent, appointmentCategory } from "../domain/events/appointment.ts";
import { type WebhookEndpointEvent, webhookEndpointCategory } from "../domain/events/partner.ts";
import type { RecordedEvent } from "../eventstore/log.ts";
import { readStreamIfPresent, type StreamReader } from "../eventstore/read-stream.ts";
import { toOperationalEvent } from "./operational-body.ts";
import { toTestBody, toWebhookBody, type WebhookBody } from "./webhook-body.ts";

/**
 * Creates the webhook body of a stored event.
 *
 * @returns undefined if the event does not exist or is not public
 * @throws {LogUnavailableError}
 * @throws {EventSchemaError} if the event or an earlier event of its stream is unreadable
 */
export async function createWebhookBody(
  log: StreamReader,
  { stream, revision }: { stream: string; revision: bigint },
): Promise<WebhookBody | undefined> {
  const history = await readStreamIfPresent(log, stream, revision);
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
