import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { EventMetadata } from "../../../shared/domain/events/metadata.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { getCurrentVersion } from "../../../shared/domain/events/upcasters.ts";
import type { EventLog, NewEvent } from "../../../shared/eventstore/log.ts";

/**
 * Creates an event log that caches every stream that it reads, so that commands about the same objects read each stream
 * only once. The cache never expires, so this event log must only be used for work of limited size. If another process
 * appends to a stream, the next append to that stream fails and removes the stream from the cache.
 */
export function createCachingEventLog(log: EventLog): EventLog {
  const eventsByStream = new Map<string, RecordedEvent[]>();

  async function readCachedEvents(stream: string): Promise<RecordedEvent[]> {
    const cachedEvents = eventsByStream.get(stream) ?? (await log.read(stream));
    eventsByStream.set(stream, cachedEvents);
    return cachedEvents;
  }

  const cachingLog: EventLog = {
    async read<Event extends CatalogEvent>(stream: string, lastRevision?: bigint) {
      const events = await readCachedEvents(stream);
      const history = lastRevision === undefined ? events : events.filter(({ revision }) => revision <= lastRevision);
      return [...history] as RecordedEvent<Event>[];
    },

    async readLast<Event extends CatalogEvent>(stream: string, maxRevision?: bigint) {
      return (await cachingLog.read<Event>(stream, maxRevision)).at(-1);
    },

    async append(stream, expectedRevision, events) {
      const cachedEvents = await readCachedEvents(stream);
      eventsByStream.delete(stream);
      const position = await log.append(stream, expectedRevision, events);
      eventsByStream.set(stream, [...cachedEvents, ...toRecordedEvents(stream, expectedRevision, events, position)]);
      return position;
    },
  };
  return cachingLog;
}

export function toRecordedEvents(
  stream: string,
  lastRevision: bigint,
  events: NewEvent[],
  position: bigint,
): RecordedEvent[] {
  return events.map(({ id, event, metadata }, index) => {
    const revision = lastRevision + 1n + BigInt(index);
    const storedMetadata = { ...metadata, schemaVersion: getCurrentVersion(event.type) };
    // Listing the members takes less time than copying the event, because events have many shapes.
    return {
      type: event.type,
      data: event.data,
      id,
      metadata: storedMetadata,
      stream,
      revision,
      position,
    } as RecordedEvent;
  });
}

/** An earlier run applied the command: the command's events are in the log. */
export class AlreadyAppliedError extends Error {
  override readonly name = "AlreadyAppliedError";
}

/**
 * Creates an event log whose reads throw if a stream contains an event of the command.
 *
 * @param isOwnEvent returns true for the metadata of an event of the command
 * @throws {AlreadyAppliedError} from the reads of the event log
 */
export function createRecognizingEventLog(log: EventLog, isOwnEvent: (metadata: EventMetadata) => boolean): EventLog {
  const recognizingLog: EventLog = {
    ...log,
    async read<Event extends CatalogEvent>(stream: string, lastRevision?: bigint) {
      const events = await log.read<Event>(stream, lastRevision);
      if (events.some(({ metadata }) => isOwnEvent(metadata))) throw new AlreadyAppliedError();
      return events;
    },
    async readLast<Event extends CatalogEvent>(stream: string, maxRevision?: bigint) {
      return (await recognizingLog.read<Event>(stream, maxRevision)).at(-1);
    },
  };
  return recognizingLog;
}
