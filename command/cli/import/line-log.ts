import { LRUCache } from "lru-cache";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import { animalStreams } from "../../../shared/domain/events/people.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import {
  EMPTY_STREAM,
  type EventLog,
  type NewEvent,
  WrongExpectedRevisionError,
} from "../../../shared/eventstore/log.ts";
import { AlreadyAppliedError, toRecordedEvents } from "./log-decorators.ts";

/** Streams that the lines of an import read and change, in bounded memory. */
export interface StreamCache extends EventLog {
  /**
   * Returns the events of a stream that is in memory, however old. Returns undefined if the stream is not in memory.
   */
  find(stream: string): Promise<RecordedEvent[]> | undefined;
  refresh(stream: string): Promise<RecordedEvent[]>;
}

interface CacheEntry {
  events: Promise<RecordedEvent[]>;
  byteCount: number;
  /** Time at which the event log last confirmed the events, as a value of `performance.now()`. */
  confirmedAt: number;
}

const MAX_BYTES = 64 * 1024 * 1024;

const EVENT_BYTES = 1_000;

/** Maximum age of an entry that a line refers to but does not change. */
const MAX_AGE_MS = 1_000;

/**
 * Streams whose entries do not become too old. A line that refers to an animal depends only on the animal's clinic and
 * owner, which never change.
 */
const LASTING_PREFIX = toStreamName(animalStreams, "");

/**
 * Creates a cache of the event log's streams for one import. `read` may return events that are up to one second old.
 * An append at an outdated revision fails, and removes the stream from the cache.
 */
export function createStreamCache(log: EventLog): StreamCache {
  const entries = new LRUCache<string, CacheEntry>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ byteCount }) => byteCount,
  });

  async function refresh(stream: string): Promise<RecordedEvent[]> {
    const loadingEntry = { events: log.read(stream), byteCount: EVENT_BYTES, confirmedAt: performance.now() };
    entries.set(stream, loadingEntry);
    try {
      const events = await loadingEntry.events;
      if (entries.get(stream) === loadingEntry)
        entries.set(stream, { ...loadingEntry, byteCount: estimateBytes(events) });
      return events;
    } catch (error) {
      if (entries.get(stream) === loadingEntry) entries.delete(stream);
      throw error;
    }
  }

  const readRecentEvents = (stream: string) => {
    const entry = entries.get(stream);
    return entry && isRecent(stream, entry) ? entry.events : refresh(stream);
  };

  async function append(stream: string, expectedRevision: bigint, events: NewEvent[]): Promise<bigint> {
    const entry = entries.get(stream);
    const knownEvents = expectedRevision === EMPTY_STREAM ? [] : await entry?.events;
    // Until the append has succeeded, the content of the stream is unknown.
    entries.delete(stream);
    const confirmedAt = performance.now();
    const position = await log.append(stream, expectedRevision, events);
    if (knownEvents && (knownEvents.at(-1)?.revision ?? EMPTY_STREAM) === expectedRevision) {
      const addedEvents = toRecordedEvents(stream, expectedRevision, events, position);
      const byteCount = (entry?.byteCount ?? 0) + estimateBytes(addedEvents);
      entries.set(stream, {
        events: Promise.resolve([...knownEvents, ...addedEvents]),
        byteCount,
        confirmedAt,
      });
    }
    return position;
  }

  return {
    find: (stream) => entries.get(stream)?.events,
    refresh,
    async read<Event extends CatalogEvent>(stream: string, lastRevision?: bigint) {
      const events = await readRecentEvents(stream);
      const history = lastRevision === undefined ? events : events.filter(({ revision }) => revision <= lastRevision);
      return history as RecordedEvent<Event>[];
    },
    readLast: (stream, maxRevision) => log.readLast(stream, maxRevision),
    append,
  };
}

function isRecent(stream: string, { confirmedAt }: CacheEntry): boolean {
  return performance.now() - confirmedAt < MAX_AGE_MS || stream.startsWith(LASTING_PREFIX);
}

function estimateBytes(events: RecordedEvent[]): number {
  return events.reduce((sum, { data }) => sum + EVENT_BYTES + 2 * JSON.stringify(data).length, EVENT_BYTES);
}

export class UnverifiedAssumptionError extends Error {
  override readonly name = "UnverifiedAssumptionError";
}

interface LineLogOptions {
  stream: string;
  /** Returns true if the line was already applied to the stream with these events. */
  isApplied(events: readonly RecordedEvent[]): boolean;
  /**
   * If true, the line's stream is assumed not to exist, unless it is in memory. Only an append to this stream verifies
   * the assumption, so any other outcome of the command must be ignored.
   */
  assumesNew: boolean;
  /** If true, all other streams are read from the event log. Otherwise they may come from memory. */
  refreshesOtherStreams: boolean;
}

/**
 * Creates the event log for one line of an import. Every read of the line's stream checks whether the line was already
 * applied, because an append that timed out may still arrive.
 *
 * @throws {AlreadyAppliedError} from reads of the line's stream, if the line was already applied
 * @throws {UnverifiedAssumptionError} from appends, if the assumption that the line's stream does not exist is wrong
 *   or would remain unverified
 */
export function createLineLog(cache: StreamCache, options: LineLogOptions): EventLog {
  const { stream, isApplied, assumesNew, refreshesOtherStreams } = options;

  async function readOwnStream(): Promise<RecordedEvent[]> {
    const cachedEvents = cache.find(stream);
    const events = await (cachedEvents ?? (assumesNew ? [] : cache.refresh(stream)));
    if (isApplied(events)) throw new AlreadyAppliedError();
    return events;
  }

  const lineLog: EventLog = {
    async read<Event extends CatalogEvent>(name: string, lastRevision?: bigint) {
      if (name !== stream && !refreshesOtherStreams) return cache.read<Event>(name, lastRevision);
      const events = await (name === stream ? readOwnStream() : cache.refresh(name));
      return (
        lastRevision === undefined ? events : events.filter(({ revision }) => revision <= lastRevision)
      ) as RecordedEvent<Event>[];
    },
    async readLast<Event extends CatalogEvent>(name: string, maxRevision?: bigint) {
      if (name !== stream) return cache.readLast<Event>(name, maxRevision);
      return (await lineLog.read<Event>(name, maxRevision)).at(-1);
    },
    async append(name, expectedRevision, events) {
      if (!assumesNew) return cache.append(name, expectedRevision, events);
      if (name !== stream) throw new UnverifiedAssumptionError(`${stream} has not been verified`);
      try {
        return await cache.append(name, expectedRevision, events);
      } catch (error) {
        if (error instanceof WrongExpectedRevisionError)
          throw new UnverifiedAssumptionError(`${stream} has changed`, { cause: error });
        throw error;
      }
    },
  };
  return lineLog;
}
