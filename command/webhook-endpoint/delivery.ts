import { type WebhookDeliveryEvent, webhookDeliveryCategory } from "../../shared/events/partner.ts";
import { type Aggregate, DomainError } from "../handle.ts";

/** What the log knows of a delivery: whether it stands still, or is under way again. */
export interface Delivery {
  id: string;
  endpointId: string;
  status: "failed" | "skipped" | "replaying";
}

const statusAfter = {
  WebhookDeliveryFailed: "failed",
  WebhookDeliverySkipped: "skipped",
  WebhookDeliveryReplayRequested: "replaying",
} as const;

export const deliveryAggregate: Aggregate<typeof webhookDeliveryCategory, Delivery> = {
  category: webhookDeliveryCategory,
  evolve(_, event) {
    const { deliveryId: id, endpointId } = event.data;
    return { id, endpointId, status: statusAfter[event.type] };
  },
};

/**
 * Asks for another round of a delivery that stands still. One that is under way, was delivered or is unknown has none.
 *
 * @throws {DomainError} `delivery_not_replayable`
 */
export function decideReplay(endpointId: string) {
  return (state: Delivery | undefined): WebhookDeliveryEvent[] => {
    if (state?.endpointId !== endpointId || state.status === "replaying") throw notReplayable();
    return [{ type: "WebhookDeliveryReplayRequested", data: { deliveryId: state.id, endpointId } }];
  };
}

export function notReplayable(): DomainError {
  return new DomainError("delivery_not_replayable", "only a failed or skipped delivery can be replayed");
}
