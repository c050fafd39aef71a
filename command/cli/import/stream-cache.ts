import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import { animalCategory, customerCategory } from "../../../shared/domain/events/people.ts";
import { EMPTY_STREAM, type EventLog, type NewEvent, type RecordedEvent } from "../../../shared/eventstore/log.ts";
import { toRecordedEvents } from "./caching-log.ts";

/** Streams that the lines of an import read and change, in bounded memory. */
export interface StreamCache extends EventLog {
  /**
   * Returns the events of a stream that is in memory, however old. Returns undefined if the stream is not in memory.
   */
  find(stream: string): Promise<RecordedEvent[]> | undefined;
  /** Reads a stream from the event log and keeps it in memory. */
  refresh(stream: string): Promise<RecordedEvent[]>;
}

interface CacheEntry {
  events: Promise<RecordedEvent[]>;
  /** Estimated memory. */
  byteCount: number;
  /** Time at which the event log last confirmed the events, as a value of `performance.now()`. */
  confirmedAt: number;
}

/** Maximum estimated memory for all events. */
const MAX_BYTES = 64 * 1024 * 1024;

/** Estimated memory of an event without its data. */
const EVENT_BYTES = 1_000;

/** Maximum age of an entry that a line refers to but does not change. Milliseconds. */
const MAX_AGE_MS = 1_000;

/**
 * Streams whose entries do not become too old. A line that refers to a customer or an animal depends only on the clinic
 * and on the animal's owner, which never change.
 */
const LASTING_PREFIXES = [customerCategory, animalCategory].map((category) => toStreamName(category, ""));

/**
 * Creates a cache of the event log's streams for one import. `read` may return events that are up to one second old.
 * An append at an outdated revision fails, and removes the stream from the cache.
 */
export function createStreamCache(log: EventLog): StreamCache {
  // With two maps, a read moves an entry only once in a while. Reordering one large map at each read takes more time.
  let recentEntries = new Map<string, CacheEntry>();
  let olderEntries = new Map<string, CacheEntry>();
  let recentBytes = 0;

  function removeEntry(stream: string): void {
    recentBytes -= recentEntries.get(stream)?.byteCount ?? 0;
    recentEntries.delete(stream);
    olderEntries.delete(stream);
  }

  /**
   * Adds an entry to the recent entries. If these fill half of the memory, they become the older entries, and the
   * former older entries are removed.
   */
  function addEntry(stream: string, entry: CacheEntry): void {
    removeEntry(stream);
    if (recentBytes + entry.byteCount > MAX_BYTES / 2) {
      olderEntries = recentEntries;
      recentEntries = new Map();
      recentBytes = 0;
    }
    if (entry.byteCount > MAX_BYTES / 2) return;
    recentEntries.set(stream, entry);
    recentBytes += entry.byteCount;
  }

  function findEntry(stream: string): CacheEntry | undefined {
    const recentEntry = recentEntries.get(stream);
    if (recentEntry) return recentEntry;
    const olderEntry = olderEntries.get(stream);
    if (olderEntry) addEntry(stream, olderEntry);
    return olderEntry;
  }

  async function refresh(stream: string): Promise<RecordedEvent[]> {
    const loadingEntry = { events: log.read(stream), byteCount: EVENT_BYTES, confirmedAt: performance.now() };
    addEntry(stream, loadingEntry);
    try {
      const events = await loadingEntry.events;
      if (findEntry(stream) === loadingEntry) addEntry(stream, { ...loadingEntry, byteCount: estimateBytes(events) });
      return events;
    } catch (error) {
      if (findEntry(stream) === loadingEntry) removeEntry(stream);
      throw error;
    }
  }

  const readRecentEvents = (stream: string) => {
    const entry = findEntry(stream);
    return entry && isRecent(stream, entry) ? entry.events : refresh(stream);
  };

  async function append(stream: string, expectedRevision: bigint, events: NewEvent[]): Promise<bigint> {
    const entry = findEntry(stream);
    const knownEvents = expectedRevision === EMPTY_STREAM ? [] : await entry?.events;
    // Until the append has succeeded, the content of the stream is unknown.
    removeEntry(stream);
    const confirmedAt = performance.now();
    const position = await log.append(stream, expectedRevision, events);
    if (knownEvents && (knownEvents.at(-1)?.revision ?? EMPTY_STREAM) === expectedRevision) {
      const addedEvents = toRecordedEvents(stream, expectedRevision, events, position);
      const byteCount = (entry?.byteCount ?? 0) + estimateBytes(addedEvents);
      addEntry(stream, {
        events: Promise.resolve([...knownEvents, ...addedEvents]),
        byteCount,
        confirmedAt,
      });
    }
    return position;
  }

  return {
    find: (stream) => findEntry(stream)?.events,
    refresh,
    async read<Event extends CatalogEvent>(stream: string, lastRevision?: bigint) {
      const events = await readRecentEvents(stream);
      const history = lastRevision === undefined ? events : events.filter(({ revision }) => revision <= lastRevision);
      return history as RecordedEvent<Event>[];
    },
    readLast: (stream) => log.readLast(stream),
    append,
  };
}

function isRecent(stream: string, { confirmedAt }: CacheEntry): boolean {
  if (performance.now() - confirmedAt < MAX_AGE_MS) return true;
  return LASTING_PREFIXES.some((prefix) => stream.startsWith(prefix));
}

function estimateBytes(events: RecordedEvent[]): number {
  return events.reduce((sum, { data }) => sum + EVENT_BYTES + 2 * JSON.stringify(data).length, EVENT_BYTES);
}
