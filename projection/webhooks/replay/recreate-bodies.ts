import { appointmentStreams } from "../../../shared/domain/events/appointment.ts";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { EventSchemaError } from "../../../shared/domain/events/stored-event.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import type { StreamReader } from "../../../shared/eventstore/read-log.ts";
import { concernsOneStream } from "../../../shared/eventstore/stream-failure.ts";
import { createWebhookBody } from "../../../shared/partner-api/webhook-body.ts";
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
  log: StreamReader,
  { eventId, eventStream: stream, eventRevision: revision }: ReplayedDelivery,
): Promise<string | undefined> {
  const body = await createWebhookBody(log, { stream, revision });
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
  const reader = shareReads(log, deliveries);
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

/** Reads the stream of an appointment only once for a batch, because each delivery needs all earlier events. */
function shareReads(log: EventLog, deliveries: readonly ReplayedDelivery[]): StreamReader {
  const lastRevisions = new Map<string, bigint>();
  for (const { eventStream, eventRevision } of deliveries) {
    if (eventRevision > (lastRevisions.get(eventStream) ?? -1n)) lastRevisions.set(eventStream, eventRevision);
  }
  const reads = new Map<string, Promise<RecordedEvent[]>>();
  const readShared = async (stream: string, maxRevision: bigint) => {
    const readPromise = reads.get(stream) ?? log.read(stream, lastRevisions.get(stream));
    reads.set(stream, readPromise);
    return (await readPromise).filter(({ revision }) => revision <= maxRevision);
  };
  const read = (stream: string, maxRevision: bigint) => {
    // Reads of other streams return no events before a complete event.
    const isShared = stream.startsWith(toStreamName(appointmentStreams, ""));
    if (!isShared) return log.read(stream, maxRevision);
    return readShared(stream, maxRevision).catch((error: unknown) => {
      // Perhaps only a later event is unreadable.
      if (error instanceof EventSchemaError) return log.read(stream, maxRevision);
      throw error;
    });
  };
  return { read: read as StreamReader["read"] };
}
