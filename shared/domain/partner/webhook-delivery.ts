import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { type WebhookDeliveryEvent, webhookDeliveryCategory } from "../events/partner.ts";

/** What the log knows of a delivery: whether it stands still, or is under way again. */
export interface Delivery {
  id: string;
  endpointId: string;
  status: "failed" | "skipped" | "replaying" | "expired";
}

const statusAfter = {
  WebhookDeliveryFailed: "failed",
  WebhookDeliverySkipped: "skipped",
  WebhookDeliveryReplayRequested: "replaying",
  WebhookDeliveryExpired: "expired",
} as const;

export const deliveryAggregate: Aggregate<typeof webhookDeliveryCategory, Delivery> = {
  category: webhookDeliveryCategory,
  evolve(_, event) {
    const { deliveryId: id, endpointId } = event.data;
    return { id, endpointId, status: statusAfter[event.type] };
  },
};

/** Whether a delivery stands still and can have another round. */
export function isReplayable({ status }: Delivery): boolean {
  return status === "failed" || status === "skipped";
}

/**
 * Asks for another round of a delivery that stands still. One that is under way, was delivered, is no longer kept or is
 * unknown has none.
 *
 * @throws {DomainError} `delivery_not_replayable`
 */
export function decideReplay(endpointId: string): Decision<Delivery, WebhookDeliveryEvent> {
  return (state) => {
    if (state?.endpointId !== endpointId || !isReplayable(state)) throw notReplayable();
    return [{ type: "WebhookDeliveryReplayRequested", data: { deliveryId: state.id, endpointId } }];
  };
}

/** What every replay that cannot be is refused with: a delivery that is unknown, pending or delivered. */
export function notReplayable(): DomainError {
  return new DomainError("delivery_not_replayable", "only a failed or skipped delivery can be replayed");
}
