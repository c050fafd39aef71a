import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { currentVersion } from "../../../shared/domain/events/upcasters.ts";
import {
  EMPTY_STREAM,
  type EventLog,
  type NewEvent,
  type RecordedEvent,
  WrongExpectedRevisionError,
} from "../../../shared/eventstore/log.ts";

/**
 * Creates an event log that caches the streams it reads, so that many commands about the same objects read them once.
 * The cache never expires: use it for bounded work. If another process appends to a stream, the next append to that
 * stream fails and removes the stream from the cache.
 *
 * @param appends `through` writes to the log; `kept` only adds to the cache, for a dry run
 */
export function createCachingEventLog(log: EventLog, appends: "through" | "kept"): EventLog {
  const streams = new Map<string, RecordedEvent[]>();

  async function remembered(stream: string): Promise<RecordedEvent[]> {
    const known = streams.get(stream) ?? (await log.read(stream));
    streams.set(stream, known);
    return known;
  }

  return {
    async read<Event extends CatalogEvent>(stream: string, upTo?: bigint) {
      const events = await remembered(stream);
      const wanted = upTo === undefined ? events : events.filter(({ revision }) => revision <= upTo);
      return [...wanted] as RecordedEvent<Event>[];
    },

    async readLast<Event extends CatalogEvent>(stream: string) {
      return (await remembered(stream)).at(-1) as RecordedEvent<Event> | undefined;
    },

    async append(stream, expectedRevision, events) {
      const known = await remembered(stream);
      if (appends === "kept" && (known.at(-1)?.revision ?? EMPTY_STREAM) !== expectedRevision)
        throw new WrongExpectedRevisionError(`${stream} is not at revision ${expectedRevision}`);
      streams.delete(stream);
      const position = appends === "through" ? await log.append(stream, expectedRevision, events) : 0n;
      streams.set(stream, [...known, ...recorded(stream, expectedRevision, events, position)]);
      return position;
    },
  };
}

function recorded(stream: string, after: bigint, events: NewEvent[], position: bigint): RecordedEvent[] {
  return events.map(({ id, event, metadata }, index) => {
    const revision = after + 1n + BigInt(index);
    const stored = { ...metadata, schemaVersion: currentVersion(event.type) };
    return { ...event, id, metadata: stored, stream, revision, position };
  });
}
