import { type AppointmentEvent, appointmentCategory } from "../../../shared/domain/events/appointment.ts";
import type { EventLog, RecordedEvent } from "../../../shared/eventstore/log.ts";
import { toTestBody, toWebhookBody, type WebhookBody } from "../../../shared/partner-api/webhook-body.ts";

/**
 * The public event of the event that stands at a place in the log, made anew.
 *
 * @returns undefined where none stands there
 * @throws {LogUnavailable}
 */
export async function webhookBodyAt(
  log: EventLog,
  { stream, revision }: { stream: string; revision: bigint },
): Promise<WebhookBody | undefined> {
  const history = await log.read(stream, revision);
  const last = history.at(-1);
  if (last?.revision !== revision) return undefined;
  if (last.type === "WebhookEndpointTested") return toTestBody(last);
  return isOfAppointment(history) ? toWebhookBody(history) : undefined;
}

function isOfAppointment(history: RecordedEvent[]): history is RecordedEvent<AppointmentEvent>[] {
  return history.every(({ type }) => type in appointmentCategory.events);
}
