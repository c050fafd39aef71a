import type { EventLog } from "../../../shared/eventstore/log.ts";
import { createWebhookBody } from "../../../shared/partner-api/webhook-body.ts";
import type { DeliveryRound } from "../outbox/facts.ts";

/** A delivery whose body is created again. */
export interface ReplayedDelivery extends DeliveryRound {
  /** Id of the public event. */
  eventId: string;
}

/**
 * Creates the webhook body of a delivery again, from the event in the log.
 *
 * @returns undefined if the log does not contain the event
 * @throws {LogUnavailableError}
 * @throws {EventSchemaError} if the event or an earlier event of its stream is unreadable
 */
export async function recreateBody(
  log: EventLog,
  { eventId, eventStream: stream, eventRevision: revision }: ReplayedDelivery,
): Promise<string | undefined> {
  const body = await createWebhookBody(log, { stream, revision });
  return body?.id === eventId ? JSON.stringify(body) : undefined;
}
