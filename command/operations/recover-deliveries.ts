import { setTimeout as delay } from "node:timers/promises";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import { type WebhookDeliveryEvent, webhookDeliveryStreams } from "../../shared/domain/events/partner.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { deliveryAggregate, isReplayable } from "../../shared/domain/partner/webhook-delivery.ts";
import {
  endpointAggregate,
  requireActiveEndpoint,
  requireExistingEndpoint,
} from "../../shared/domain/partner/webhook-endpoint.ts";
import { type EventLog, LogUnavailableError, toLogError } from "../../shared/eventstore/log.ts";
import { subscribeToLog } from "../../shared/eventstore/subscription.ts";
import { type CommandContext, loadAggregate } from "../handling/handle.ts";
import { endsRun } from "../handling/server-failure.ts";
import { replayDelivery } from "./replay-operations.ts";

export interface RecoveryProgress {
  found: number;
  requested: number;
  /**
   * Number of deliveries that could not be replayed, for example because another replay had been requested, or the
   * endpoint was no longer active.
   */
  left: number;
  /**
   * Number of deliveries, of any endpoint, that are not replayed because this release cannot read one of their events.
   */
  unreadable: number;
}

const MAX_CONCURRENT_REPLAYS = 8;

/** Time between two requests. The webhooks role processes requests faster, so they do not delay new events. */
const REQUEST_INTERVAL_MS = 10;

/**
 * Requests the replay of all failed or skipped deliveries of an active endpoint, at most 100 per second. Each request
 * follows the rules of a partner's replay request. If the recovery stops early, the requested replays are kept. A second
 * recovery replays only those deliveries that are still failed or skipped, or that failed in the meantime.
 *
 * @param input.isDryRun if true, counts the deliveries without replaying them
 * @throws {DomainError} `webhook_endpoint_not_found`, `webhook_endpoint_disabled`, `webhook_endpoint_revoked`,
 *   `too_many_deliveries`
 * @throws {LogUnavailableError} or the failure of another server, after the requests in progress have ended
 */
export async function recoverDeliveries(
  { log, client }: { client: EventStoreDBClient; log: EventLog },
  input: ReplayableFilter & { isDryRun: boolean },
  context: CommandContext,
  onProgress: (progress: RecoveryProgress) => void,
): Promise<RecoveryProgress> {
  const { endpointId } = input;
  const { state } = await loadAggregate(log, endpointAggregate, endpointId);
  const owner = input.isDryRun ? requireExistingEndpoint(state) : requireActiveEndpoint(state);
  const { deliveryIds, unreadableCount } = await findReplayableDeliveries(client, input);
  const progress = { found: deliveryIds.length, requested: 0, left: 0, unreadable: unreadableCount };
  if (input.isDryRun) return progress;
  const remainingIds = deliveryIds.values();
  let fatalError: { error: unknown } | undefined;
  let nextStartAt = performance.now();
  const awaitTurn = async () => {
    const startAt = Math.max(nextStartAt, performance.now());
    nextStartAt = startAt + REQUEST_INTERVAL_MS;
    await delay(startAt - performance.now());
  };
  const replayRemainingDeliveries = async () => {
    for (const deliveryId of remainingIds) {
      if (fatalError) return;
      try {
        await awaitTurn();
        await replayDelivery(log, { endpointId, owner, deliveryId }, context);
        progress.requested += 1;
      } catch (error) {
        if (await endsRun(log, error)) fatalError ??= { error };
        else progress.left += 1;
      }
      onProgress(progress);
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT_REPLAYS }, replayRemainingDeliveries));
  if (fatalError) throw fatalError.error;
  return progress;
}

/** Endpoint, and range of times at which deliveries failed or were skipped. Milliseconds since 1970. */
interface ReplayableFilter {
  endpointId: string;
  since: number;
  /** End of the range, exclusive; undefined for now. */
  until: number | undefined;
  /** Maximum number of deliveries; default: 1,000,000, which take about 150 MB of memory. */
  maxDeliveries?: number;
}

const STREAM_PREFIX = toStreamName(webhookDeliveryStreams, "");

const DEFAULT_MAX_DELIVERIES = 1_000_000;

/**
 * Finds the failed or skipped deliveries of an endpoint, oldest failure first. Reads the log once. The server returns
 * only events of deliveries. A delivery with an event that this release cannot read is omitted, because the event may
 * have ended it.
 *
 * @throws {DomainError} `too_many_deliveries`
 * @throws {LogUnavailableError}
 */
export async function findReplayableDeliveries(
  client: EventStoreDBClient,
  filter: ReplayableFilter,
): Promise<{ deliveryIds: string[]; unreadableCount: number }> {
  const replayableIds = new Set<string>();
  const unreadableIds = new Set<string>();
  const { maxDeliveries = DEFAULT_MAX_DELIVERIES } = filter;
  const abortController = new AbortController();
  const categories = [webhookDeliveryStreams];
  let isComplete = false;
  try {
    for await (const item of subscribeToLog({ client, after: undefined, categories, signal: abortController.signal })) {
      if (item.kind === "caughtUp") {
        isComplete = true;
        break;
      }
      if (item.kind === "unreadable") unreadableIds.add(item.stream.slice(STREAM_PREFIX.length));
      if (item.kind !== "event") continue;
      const { event } = item as { event: RecordedEvent<WebhookDeliveryEvent> };
      if (event.data.endpointId !== filter.endpointId) continue;
      const { deliveryId } = event.data;
      // Deleting and adding the id moves it to the end, so that the ids are in the order of each delivery's latest
      // event.
      replayableIds.delete(deliveryId);
      if (!isReplayableInRange(event, filter)) continue;
      replayableIds.add(deliveryId);
      if (replayableIds.size > maxDeliveries) {
        const message = `more than ${maxDeliveries} deliveries; choose a shorter time range`;
        throw new DomainError("too_many_deliveries", message);
      }
    }
  } catch (error) {
    throw toLogError(error);
  } finally {
    abortController.abort();
  }
  if (!isComplete) throw new LogUnavailableError("the event log ended the subscription before it caught up");
  const deliveryIds = [...replayableIds].filter((id) => !unreadableIds.has(id));
  return { deliveryIds, unreadableCount: unreadableIds.size };
}

function isReplayableInRange(
  event: RecordedEvent<WebhookDeliveryEvent>,
  { since, until = Number.POSITIVE_INFINITY }: ReplayableFilter,
): boolean {
  const delivery = deliveryAggregate.evolve(undefined, event);
  const occurredAt = Date.parse(event.metadata.occurredAt);
  return delivery !== undefined && isReplayable(delivery) && occurredAt >= since && occurredAt < until;
}
