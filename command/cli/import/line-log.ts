import { LRUCache } from "lru-cache";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import { animalStreams } from "../../../shared/domain/events/people.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { getCurrentVersion } from "../../../shared/domain/events/upcasters.ts";
import {
  EMPTY_STREAM,
  type EventLog,
  type NewEvent,
  requireAppendable,
  WrongExpectedRevisionError,
} from "../../../shared/eventstore/log.ts";

/** Cache of the streams that an import reads and changes. Its memory is limited. */
export interface StreamCache {
  /**
   * Reads a stream. Cached events are at most one second old. Streams with the prefix {@link LASTING_PREFIX} do not
   * expire.
   *
   * @param isFresh if true, reads the event log instead of the cache
   */
  read(stream: string, isFresh?: boolean): Promise<RecordedEvent[]>;
  /** Appends events to the event log and to the cached stream. If the append fails, the stream is no longer cached. */
  append: EventLog["append"];
  has(stream: string): boolean;
}

const MAX_BYTES = 64 * 1024 * 1024;

const EVENT_BYTES = 1_000;

/** Maximum age of a cached stream, in milliseconds. */
const MAX_AGE_MS = 1_000;

/**
 * Prefix of the streams that do not expire in the cache: those of animals. Lines that refer to an animal depend only on
 * its clinic and owner, which never change.
 */
const LASTING_PREFIX = toStreamName(animalStreams, "");

/**
 * Creates a cache of streams for one import.
 *
 * @param lastingPrefix prefix of the names of streams that do not expire
 */
export function createStreamCache(log: EventLog, lastingPrefix = LASTING_PREFIX): StreamCache {
  const getMaxAge = (stream: string) => (stream.startsWith(lastingPrefix) ? 0 : MAX_AGE_MS);
  const streams = new LRUCache<string, RecordedEvent[]>({
    maxSize: MAX_BYTES,
    sizeCalculation: (events) =>
      events.reduce((sum, { data }) => sum + EVENT_BYTES + 2 * JSON.stringify(data).length, EVENT_BYTES),
    ttl: MAX_AGE_MS,
    // A removed stream still answers the reads that wait for it.
    ignoreFetchAbort: true,
    fetchMethod(stream, _, { options }) {
      options.ttl = getMaxAge(stream);
      return log.read(stream);
    },
  });

  return {
    has: (stream) => streams.peek(stream, { allowStale: true }) !== undefined,
    async read(stream, isFresh) {
      if (isFresh) streams.delete(stream);
      return (await streams.fetch(stream)) ?? [];
    },
    async append(stream, expectedRevision, events) {
      const knownEvents = expectedRevision === EMPTY_STREAM ? [] : streams.peek(stream, { allowStale: true });
      // Until the append has succeeded, the content of the stream is unknown.
      streams.delete(stream);
      const position = await log.append(stream, expectedRevision, events);
      if (knownEvents && (knownEvents.at(-1)?.revision ?? EMPTY_STREAM) === expectedRevision) {
        const addedEvents = toRecordedEvents(stream, expectedRevision, events, position);
        streams.set(stream, [...knownEvents, ...addedEvents], { ttl: getMaxAge(stream) });
      }
      return position;
    },
  };
}

/** An earlier run has already applied the line. The log contains an event of the line. */
export class AlreadyAppliedError extends Error {
  override readonly name = "AlreadyAppliedError";
}

/**
 * Creates the event log for one line of an import. Each read of the line's stream checks whether the line was already
 * applied. This can happen during the import: an append that timed out may still arrive, and another process may import
 * the same file.
 *
 * @param ownStream stream that the line changes; undefined to check each stream that is read
 * @param checkOwn called with the events after each checked read. Throws an {@link AlreadyAppliedError} if the line was
 *   already applied
 * @param isFresh if true, all streams are read from the event log
 */
export function createLineLog(
  cache: StreamCache,
  ownStream: string | undefined,
  checkOwn: (events: readonly RecordedEvent[]) => void,
  isFresh = false,
): EventLog {
  let isOwnChecked = false;

  const lineLog: EventLog = {
    async read<Event extends CatalogEvent>(stream: string, lastRevision?: bigint) {
      const events = await cache.read(stream, isFresh);
      if (ownStream === undefined || stream === ownStream) {
        isOwnChecked = true;
        checkOwn(events);
      }
      const history = lastRevision === undefined ? events : events.filter(({ revision }) => revision <= lastRevision);
      return history as RecordedEvent<Event>[];
    },
    async readLast<Event extends CatalogEvent>(stream: string, maxRevision?: bigint) {
      return (await lineLog.read<Event>(stream, maxRevision)).at(-1);
    },
    async append(stream, expectedRevision, events) {
      // The first append to the line's stream fails if the line was applied. An append to another stream would not.
      if (ownStream !== undefined && stream !== ownStream && !isOwnChecked) await lineLog.read(ownStream);
      return cache.append(stream, expectedRevision, events);
    },
  };
  return lineLog;
}

function toRecordedEvents(stream: string, lastRevision: bigint, events: NewEvent[], position: bigint): RecordedEvent[] {
  return events.map(({ id, event: { type, data }, metadata }, index) => {
    const revision = lastRevision + 1n + BigInt(index);
    const storedMetadata = { ...metadata, schemaVersion: getCurrentVersion(type) };
    return { type, data, id, metadata: storedMetadata, stream, revision, position } as RecordedEvent;
  });
}

/** A stream to which the dry run has appended. */
interface ExtendedStream {
  /** Last revision of the stream in the event log, without the appends of the dry run. `revision` includes them. */
  loggedRevision: bigint;
  revision: bigint;
  /** The appended events as JSON, one buffer for each append. Objects would need three times as much memory. */
  appends: Buffer[];
}

/** Creates an event log for a dry run. It checks appends as the given log would, but keeps the events in memory. */
export function createDryRunLog(log: EventLog): EventLog {
  const streams = new Map<string, ExtendedStream>();

  async function read<Event extends CatalogEvent>(stream: string, maxRevision?: bigint) {
    const extended = streams.get(stream);
    if (!extended) return log.read<Event>(stream, maxRevision);
    const { loggedRevision, revision: lastRevision, appends } = extended;
    const newEvents = appends.flatMap((json) => JSON.parse(json.toString()) as NewEvent[]);
    const loggedEvents = loggedRevision === EMPTY_STREAM ? [] : await log.read<Event>(stream, loggedRevision);
    const events = [...loggedEvents, ...toRecordedEvents(stream, loggedRevision, newEvents, 0n)];
    return events.filter(({ revision }) => revision <= (maxRevision ?? lastRevision)) as RecordedEvent<Event>[];
  }

  return {
    read,
    readLast: async <Event extends CatalogEvent>(stream: string, maxRevision?: bigint) =>
      streams.has(stream) ? (await read<Event>(stream, maxRevision)).at(-1) : log.readLast<Event>(stream, maxRevision),
    async append(stream, expectedRevision, events) {
      requireAppendable(stream, expectedRevision, events);
      let extended = streams.get(stream);
      if (!extended) {
        const loggedRevision = (await log.readLast(stream))?.revision ?? EMPTY_STREAM;
        extended = { loggedRevision, revision: loggedRevision, appends: [] };
      }
      if (extended.revision !== expectedRevision)
        throw new WrongExpectedRevisionError(`${stream} is not at revision ${expectedRevision}`);
      extended.appends.push(Buffer.from(JSON.stringify(events)));
      extended.revision += BigInt(events.length);
      streams.set(stream, extended);
      return 0n;
    },
  };
}
