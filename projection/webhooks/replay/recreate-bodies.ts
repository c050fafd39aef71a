import { concernsOneStream } from "../../../shared/eventstore/stream-failure.ts";
import { createFeedEvent, type FeedReader } from "../../../shared/partner-api/feed-event.ts";
import { shareAppointmentReads } from "../../../shared/partner-api/share-reads.ts";
import type { ReplayDeps } from "./replay-delivery.ts";
import type { ReplayedDelivery } from "./select-deliveries.ts";

const MAX_CONCURRENT_READS = 8;

/**
 * Creates the webhook body of a delivery again, from the event in the log.
 *
 * @returns undefined if the log does not contain the event
 * @throws {LogUnavailableError}
 * @throws {EventSchemaError} if the event or an earlier event of its stream is unreadable
 */
export async function recreateBody(
  log: FeedReader,
  { eventId, eventStream: stream, eventRevision: revision }: ReplayedDelivery,
): Promise<string | undefined> {
  const body = await createFeedEvent(log, { stream, revision });
  return body?.id === eventId ? JSON.stringify(body) : undefined;
}

interface RecreatedBodies {
  bodies: Map<string, string>;
  missingIds: Set<string>;
}

/** Creates the webhook bodies again. The result lacks deliveries whose event cannot be read. */
export async function recreateBodies(
  { log, logger }: ReplayDeps,
  deliveries: readonly ReplayedDelivery[],
): Promise<RecreatedBodies> {
  const bodies = new Map<string, string>();
  const missingIds = new Set<string>();
  const sources = deliveries.map(({ eventStream: stream, eventRevision: revision }) => ({ stream, revision }));
  const reader = shareAppointmentReads(log, sources);
  const remainingDeliveries = deliveries.values();
  const recreateRemainingBodies = async () => {
    for (const delivery of remainingDeliveries) {
      const { deliveryId } = delivery;
      try {
        const body = await recreateBody(reader, delivery);
        if (body === undefined) missingIds.add(deliveryId);
        else bodies.set(deliveryId, body);
      } catch (error) {
        if (!(await concernsOneStream(log, error))) throw error;
        logger.error({ error, deliveryId }, "A delivery was not replayed, because its event cannot be read.");
      }
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT_READS }, recreateRemainingBodies));
  return { bodies, missingIds };
}
