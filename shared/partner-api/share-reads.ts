import { appointmentStreams } from "../domain/events/appointment.ts";
import { toStreamName } from "../domain/events/category.ts";
import type { RecordedEvent } from "../domain/events/recorded-event.ts";
import { EventSchemaError } from "../domain/events/stored-event.ts";
import type { StreamReader } from "../eventstore/read-log.ts";
import type { FeedReader } from "./feed-event.ts";

/**
 * Reads the stream of an appointment only once for several events, because the body of each event needs all earlier
 * events.
 */
export function shareAppointmentReads(
  log: FeedReader,
  sources: readonly { stream: string; revision: bigint }[],
): FeedReader {
  const lastRevisions = new Map<string, bigint>();
  for (const { stream, revision } of sources) {
    if (revision > (lastRevisions.get(stream) ?? -1n)) lastRevisions.set(stream, revision);
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
  return { read: read as StreamReader["read"], readLast: (stream, maxRevision) => log.readLast(stream, maxRevision) };
}
