/** Reads events from the database in pages of bounded size. */
import type { Database } from "./database.ts";
import { EVENTS_ABOVE, EVENTS_BELOW, eventKey, positionOfKey, revisionKey } from "./keys.ts";
import { PAGE_BYTES, PAGE_EVENTS } from "./limits.ts";
import { decodeIndexEntry, type IndexEntry } from "./record.ts";
import type { StagedEvent } from "./staged-group.ts";

export interface PositionRange {
  readonly from: number;
  /** Whether the event at `from` belongs to the range. */
  readonly inclusive: boolean;
  readonly backwards: boolean;
}

/** Pages of all events from a position on, as they stood when the first page was read. */
export async function* readPositions(
  database: Database,
  range: PositionRange,
): AsyncGenerator<StagedEvent[]> {
  const start = eventKey(range.from);
  const bounds = range.backwards
    ? { gt: EVENTS_BELOW, [range.inclusive ? "lte" : "lt"]: start, reverse: true }
    : { [range.inclusive ? "gte" : "gt"]: start, lt: EVENTS_ABOVE };
  const iterator = database.iterator({ ...bounds, highWaterMarkBytes: PAGE_BYTES });
  try {
    for (;;) {
      const entries = await iterator.nextv(PAGE_EVENTS);
      if (entries.length === 0) return;
      yield entries.map(([key, record]) => ({ position: positionOfKey(key), record }));
    }
  } finally {
    await iterator.close();
  }
}

/**
 * Pages of the events of a stream from one revision to another, both included; backwards where `from` is the
 * larger. Both must exist: revisions have no gaps.
 */
export async function* readRevisions(
  database: Database,
  stream: string,
  from: number,
  to: number,
): AsyncGenerator<StagedEvent[]> {
  const step = from <= to ? 1 : -1;
  const count = Math.abs(to - from) + 1;
  for (let done = 0; done < count; done += PAGE_EVENTS) {
    const size = Math.min(PAGE_EVENTS, count - done);
    const keys = Array.from({ length: size }, (_, index) =>
      revisionKey(stream, from + step * (done + index)),
    );
    const values = await database.getMany(keys);
    const entries = values.map((value, index) => {
      if (value === undefined)
        throw new Error(`Revision ${from + step * (done + index)} is not in the index.`);
      return decodeIndexEntry(value);
    });
    for (const page of pagesByBytes(entries)) yield await readEntries(database, page);
  }
}

async function readEntries(database: Database, entries: readonly IndexEntry[]): Promise<StagedEvent[]> {
  const records = await database.getMany(entries.map((entry) => eventKey(entry.position)));
  return entries.map(({ position }, index) => {
    const record = records[index];
    if (record === undefined) throw new Error(`The event at position ${position} is missing.`);
    return { position, record };
  });
}

/** Cuts index entries so that the events of one page fit into the bound, or are one event. */
function pagesByBytes(entries: readonly IndexEntry[]): IndexEntry[][] {
  const pages: IndexEntry[][] = [];
  let page: IndexEntry[] = [];
  let bytes = 0;
  for (const entry of entries) {
    if (page.length > 0 && bytes + entry.size > PAGE_BYTES) {
      pages.push(page);
      page = [];
      bytes = 0;
    }
    page.push(entry);
    bytes += entry.size;
  }
  if (page.length > 0) pages.push(page);
  return pages;
}
