import type { EventStoreDBClient } from "@eventstore/db-client";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { type WebhookDeliveryEvent, webhookDeliveryCategory } from "../../shared/domain/events/partner.ts";
import { deliveryAggregate, isReplayable } from "../../shared/domain/partner/webhook-delivery.ts";
import { isUnavailable, LogUnavailable, type RecordedEvent } from "../../shared/eventstore/log.ts";
import { catchUp } from "../../shared/eventstore/subscription.ts";

/** Of which endpoint, and when they failed or were skipped. Milliseconds since 1970. */
export interface StandingFilter {
  endpointId: string;
  since: number;
  /** Before it; undefined for up to now. */
  until: number | undefined;
  /** More than so many at once are refused; 1,000,000 where absent, which take about 150 MB of memory. */
  most?: number;
}

const MOST = 1_000_000;

/**
 * The deliveries of an endpoint that stand failed or skipped, the longest first, as the facts in the log tell. The
 * whole log is gone through once; the server leaves out every event that is no delivery's fact.
 *
 * @returns their ids
 * @throws {DomainError} `too_many_deliveries`
 * @throws {LogUnavailable}
 */
export async function standingDeliveries(
  client: EventStoreDBClient,
  filter: StandingFilter,
): Promise<string[]> {
  const standing = new Set<string>();
  const most = filter.most ?? MOST;
  const end = new AbortController();
  let isComplete = false;
  try {
    for await (const item of catchUp({
      client,
      after: undefined,
      categories: [webhookDeliveryCategory],
      signal: end.signal,
    })) {
      if (item.kind === "caughtUp") {
        isComplete = true;
        break;
      }
      if (item.kind !== "event") continue;
      const { event } = item as { event: RecordedEvent<WebhookDeliveryEvent> };
      if (event.data.endpointId !== filter.endpointId) continue;
      const { deliveryId } = event.data;
      // Added anew, so that the order is that of the latest facts.
      standing.delete(deliveryId);
      if (!standsWithin(event, filter)) continue;
      standing.add(deliveryId);
      if (standing.size > most)
        throw new DomainError("too_many_deliveries", `they are more than ${most}: choose a shorter span`);
    }
  } catch (error) {
    if (isUnavailable(error)) throw new LogUnavailable("the event log is unavailable", { cause: error });
    throw error;
  } finally {
    end.abort();
  }
  if (!isComplete) throw new LogUnavailable("the event log ended the subscription before it caught up");
  return [...standing];
}

function standsWithin(event: RecordedEvent<WebhookDeliveryEvent>, { since, until }: StandingFilter): boolean {
  const delivery = deliveryAggregate.evolve(undefined, event);
  const at = Date.parse(event.metadata.occurredAt);
  return (
    delivery !== undefined && isReplayable(delivery) && at >= since && (until === undefined || at < until)
  );
}
