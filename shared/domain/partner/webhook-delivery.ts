import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { type WebhookDeliveryEvent, webhookDeliveryStreams } from "../events/partner.ts";

/** State of a webhook delivery in the event log. Pending and delivered deliveries are stored only in the database. */
interface Delivery {
  id: string;
  endpointId: string;
  status: "failed" | "skipped" | "replaying" | "expired";
}

const statusAfterEvent = {
  WebhookDeliveryFailed: "failed",
  WebhookDeliverySkipped: "skipped",
  WebhookDeliveryReplayRequested: "replaying",
  WebhookDeliveryExpired: "expired",
} as const;

export const deliveryAggregate: Aggregate<typeof webhookDeliveryStreams, Delivery> = {
  category: webhookDeliveryStreams,
  evolve(_, event) {
    const { deliveryId: id, endpointId } = event.data;
    return { id, endpointId, status: statusAfterEvent[event.type] };
  },
};

/** Returns true if a delivery has failed or was skipped, and can therefore be replayed. */
export function isReplayable({ status }: Delivery): boolean {
  return status === "failed" || status === "skipped";
}

/**
 * Requests the replay of a failed or skipped delivery.
 *
 * @throws {DomainError} `delivery_not_replayable`
 */
export function decideReplay(endpointId: string): Decision<Delivery, WebhookDeliveryEvent> {
  return (state) => {
    if (state?.endpointId !== endpointId || !isReplayable(state)) throw createNotReplayableError();
    return [{ type: "WebhookDeliveryReplayRequested", data: { deliveryId: state.id, endpointId } }];
  };
}

/** Creates the error for a delivery that is unknown, pending, delivered or expired. */
export function createNotReplayableError(): DomainError {
  return new DomainError("delivery_not_replayable", "only a failed or skipped delivery can be replayed");
}
