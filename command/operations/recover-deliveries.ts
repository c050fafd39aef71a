import type { EventStoreDBClient } from "@eventstore/db-client";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { type WebhookDeliveryEvent, webhookDeliveryCategory } from "../../shared/domain/events/partner.ts";
import { deliveryAggregate, isReplayable } from "../../shared/domain/partner/webhook-delivery.ts";
import {
  activeEndpoint,
  endpointAggregate,
  knownEndpoint,
} from "../../shared/domain/partner/webhook-endpoint.ts";
import {
  type EventLog,
  LogUnavailable,
  type RecordedEvent,
  toLogError,
} from "../../shared/eventstore/log.ts";
import { catchUp } from "../../shared/eventstore/subscription.ts";
import { type CommandContext, load } from "../handling/handle.ts";
import { replayDelivery } from "./webhook-endpoint-operations.ts";

/** How far a recovery is, and in the end what came of it. */
export interface Recovery {
  /** Deliveries that stood failed or skipped when it began. */
  found: number;
  /** Of them, those whose replay it has asked for. */
  requested: number;
  /** Of them, those that could not be replayed when their turn came: somebody else asked, or the endpoint went. */
  left: number;
}

/** Replays asked for at once. */
const MAX_CONCURRENT = 8;

/**
 * Asks for another round of every failed or skipped delivery of an active endpoint, each by the same decision as a
 * partner's own request. What was asked for stays asked for, whenever it ends: the same recovery again takes up what
 * is failed or skipped by then.
 *
 * @param input.dryRun finds and counts them, and asks for nothing
 * @param onProgress called after each
 * @throws {DomainError} `webhook_endpoint_not_found`, `webhook_endpoint_disabled`, `webhook_endpoint_revoked`,
 *   `too_many_deliveries`
 * @throws {LogUnavailable} when the requests under way are over
 */
export async function recoverDeliveries(
  dependencies: { client: EventStoreDBClient; log: EventLog },
  input: ReplayableFilter & { dryRun: boolean },
  context: CommandContext,
  onProgress: (progress: Recovery) => void,
): Promise<Recovery> {
  const { log, client } = dependencies;
  const { endpointId } = input;
  const { state } = await load(log, endpointAggregate, endpointId);
  const owner = input.dryRun ? knownEndpoint(state) : activeEndpoint(state);
  const ids = await findReplayableDeliveries(client, input);
  const progress = { found: ids.length, requested: 0, left: 0 };
  if (input.dryRun) return progress;
  const waiting = ids.values();
  let broken: { error: unknown } | undefined;
  const work = async () => {
    for (const deliveryId of waiting) {
      if (broken) return;
      try {
        await replayDelivery(log, { endpointId, owner, deliveryId }, context);
        progress.requested += 1;
      } catch (error) {
        if (error instanceof DomainError) progress.left += 1;
        else broken ??= { error };
      }
      onProgress(progress);
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, work));
  if (broken) throw broken.error;
  return progress;
}

/** Of which endpoint, and when they failed or were skipped. Milliseconds since 1970. */
export interface ReplayableFilter {
  endpointId: string;
  since: number;
  /** Before it; undefined for up to now. */
  until: number | undefined;
  /** More than so many at once are refused; 1,000,000 where absent, which take about 150 MB of memory. */
  most?: number;
}

const MAX_DELIVERIES = 1_000_000;

/**
 * The deliveries of an endpoint that stand failed or skipped, the longest first, as the facts in the log tell. The
 * whole log is gone through once; the server leaves out every event that is no delivery's fact.
 *
 * @returns their ids
 * @throws {DomainError} `too_many_deliveries`
 * @throws {LogUnavailable}
 */
export async function findReplayableDeliveries(
  client: EventStoreDBClient,
  filter: ReplayableFilter,
): Promise<string[]> {
  const replayable = new Set<string>();
  const most = filter.most ?? MAX_DELIVERIES;
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
      replayable.delete(deliveryId);
      if (!isReplayableWithin(event, filter)) continue;
      replayable.add(deliveryId);
      if (replayable.size > most)
        throw new DomainError("too_many_deliveries", `they are more than ${most}: choose a shorter span`);
    }
  } catch (error) {
    throw toLogError(error);
  } finally {
    end.abort();
  }
  if (!isComplete) throw new LogUnavailable("the event log ended the subscription before it caught up");
  return [...replayable];
}

function isReplayableWithin(
  event: RecordedEvent<WebhookDeliveryEvent>,
  { since, until }: ReplayableFilter,
): boolean {
  const delivery = deliveryAggregate.evolve(undefined, event);
  const at = Date.parse(event.metadata.occurredAt);
  return (
    delivery !== undefined && isReplayable(delivery) && at >= since && (until === undefined || at < until)
  );
}
