/** Reads events from the segments in pages of limited size, and verifies each event against the index. */
import { MAX_PAGE_READS, PAGE_BYTES, PAGE_EVENTS, READ_TOGETHER_BYTES } from "../model/limits.ts";
import { damageAt, LogDamagedError } from "../model/log-errors.ts";
import { type LogEvent, streamOf } from "../model/record.ts";
import type { LogIndex } from "./log-index.ts";
import { decodeStoredRecord } from "./segment-format.ts";
import type { Segments } from "./segments.ts";

/** The committed part of a log. */
export interface CommittedLog {
  readonly index: LogIndex;
  readonly segments: Segments;
  /** Initial value for the checksums of records, derived from the log id. */
  readonly seed: number;
}

/** Start and direction of a read of all streams. */
export interface PositionRange {
  readonly from: number;
  /** If true, the read includes the event at `from`. */
  readonly inclusive: boolean;
  readonly backwards: boolean;
}

/** Events of one segment that one disk read returns. */
interface Run {
  /** Ordinals of the events in ascending order. They may have gaps. */
  readonly ordinals: number[];
  readonly segment: number;
  /** Offset in the segment at which the disk read starts. */
  readonly start: number;
  /** Offset in the segment at which the disk read ends. */
  end: number;
}

/** Result of a disk read. */
interface ReadEvents {
  /** Intact events in read order, up to the first damaged event. */
  readonly events: LogEvent[];
  /** Error for the first damaged event; undefined if all events are intact. */
  readonly damage: LogDamagedError | undefined;
}

/**
 * Reads the events of all streams from a position on, in pages. A forward read ends with the event that was the newest when
 * the read started.
 *
 * @throws LogDamagedError at the first damaged event, after the read has returned all events before it
 */
export async function* readPositions(log: CommittedLog, range: PositionRange): AsyncGenerator<LogEvent[]> {
  const { index } = log;
  const { from, inclusive, backwards } = range;
  if (backwards) {
    let end = index.firstFrom(inclusive ? from + 1 : from);
    while (end > 0) {
      const { events, damage } = await readRun(log, runBefore(index, end), backwards);
      if (events.length > 0) yield events;
      if (damage !== undefined) throw damage;
      end -= events.length;
    }
    return;
  }
  const stop = index.events;
  for (let next = index.firstFrom(inclusive ? from : from + 1); next < stop; ) {
    const { events, damage } = await readRun(log, runFrom(index, next, stop), backwards);
    if (events.length > 0) yield events;
    if (damage !== undefined) throw damage;
    next += events.length;
  }
}

/**
 * Reads the events of a stream in pages. The range includes both `from` and `to`, which must exist. If `from` is greater
 * than `to`, the stream is read backwards.
 *
 * @throws LogDamagedError at the first damaged event, after the read has returned all events before it
 */
export async function* readRevisions(
  log: CommittedLog,
  stream: string,
  from: number,
  to: number,
): AsyncGenerator<LogEvent[]> {
  const backwards = from > to;
  const count = Math.abs(to - from) + 1;
  for (let done = 0; done < count; done += PAGE_EVENTS) {
    const size = Math.min(PAGE_EVENTS, count - done);
    const first = backwards ? from - done - size + 1 : from + done;
    const pages = pagesOf(log.index, log.index.ordinalsBetween(stream, first, first + size - 1));
    if (backwards) pages.reverse();
    for (const runs of pages) {
      if (backwards) runs.reverse();
      const parts = await Promise.all(runs.map((run) => readRun(log, run, backwards, stream)));
      const { events, damage } = joined(parts);
      if (events.length > 0) yield events;
      if (damage !== undefined) throw damage;
    }
  }
}

/** Joins the results of consecutive disk reads, up to the first damaged event. */
function joined(parts: readonly ReadEvents[]): ReadEvents {
  const damaged = parts.findIndex(({ damage }) => damage !== undefined);
  const intact = damaged < 0 ? parts : parts.slice(0, damaged + 1);
  return { events: intact.flatMap(({ events }) => events), damage: parts[damaged]?.damage };
}

/** Plans a disk read that starts with an event. It stays within the segment and the limits of a page. */
function runFrom(index: LogIndex, first: number, stop: number): Run {
  const run = runOf(index, first);
  const limit = Math.min(stop, first + PAGE_EVENTS, index.ordinalsOf(run.segment).end);
  let end = first + 1;
  while (end < limit && index.endOffsetOf(end) - run.start <= PAGE_BYTES) end += 1;
  return { ...run, ordinals: consecutive(first, end), end: index.endOffsetOf(end - 1) };
}

/** Plans a disk read that ends before an event. It stays within the segment and the limits of a page. */
function runBefore(index: LogIndex, end: number): Run {
  const run = runOf(index, end - 1);
  const limit = Math.max(end - PAGE_EVENTS, index.ordinalsOf(run.segment).first);
  let first = end - 1;
  while (first > limit && run.end - index.offsetOf(first - 1) <= PAGE_BYTES) first -= 1;
  return { ...run, ordinals: consecutive(first, end), start: index.offsetOf(first) };
}

function consecutive(first: number, end: number): number[] {
  return Array.from({ length: end - first }, (_, at) => first + at);
}

/** Plans the disk reads for events of a stream, and groups them into pages. Nearby events share a disk read. */
function pagesOf(index: LogIndex, ordinals: readonly number[]): Run[][] {
  const pages: Run[][] = [];
  let page: Run[] = [];
  let bytes = 0;
  for (const ordinal of ordinals) {
    const next = runOf(index, ordinal);
    const run = page.at(-1);
    const isNear =
      run !== undefined && run.segment === next.segment && next.start - run.end <= READ_TOGETHER_BYTES;
    const added = isNear ? next.end - run.end : next.end - next.start;
    if (page.length > 0 && (bytes + added > PAGE_BYTES || (!isNear && page.length === MAX_PAGE_READS))) {
      pages.push(page);
      page = [next];
      bytes = next.end - next.start;
      continue;
    }
    bytes += added;
    if (isNear) {
      run.ordinals.push(ordinal);
      run.end = next.end;
    } else page.push(next);
  }
  if (page.length > 0) pages.push(page);
  return pages;
}

function runOf(index: LogIndex, ordinal: number): Run {
  const segment = index.segmentOf(ordinal);
  return { ordinals: [ordinal], segment, start: index.offsetOf(ordinal), end: index.endOffsetOf(ordinal) };
}

/** Performs a disk read. If an event is damaged, reads the events one by one to return the events before the damage. */
async function readRun(
  log: CommittedLog,
  run: Run,
  backwards: boolean,
  stream?: string,
): Promise<ReadEvents> {
  try {
    const events = await readIntact(log, run, stream);
    return { events: backwards ? events.reverse() : events, damage: undefined };
  } catch (error) {
    if (!(error instanceof LogDamagedError)) throw error;
    if (run.ordinals.length === 1) return { events: [], damage: error };
  }
  const ordinals = backwards ? [...run.ordinals].reverse() : run.ordinals;
  const parts: ReadEvents[] = [];
  for (const ordinal of ordinals) {
    const part = await readRun(log, runOf(log.index, ordinal), backwards, stream);
    parts.push(part);
    if (part.damage !== undefined) break;
  }
  return joined(parts);
}

/** @throws LogDamagedError if any of the events is damaged */
async function readIntact(log: CommittedLog, run: Run, stream?: string): Promise<LogEvent[]> {
  const { index, segments, seed } = log;
  const [first = 0] = run.ordinals;
  const bytes = await segments.read(run.segment, run.start, run.end - run.start, index.positionOf(first));
  return run.ordinals.map((ordinal) => {
    const offset = index.offsetOf(ordinal);
    const position = index.positionOf(ordinal);
    const record = decodeStoredRecord(bytes, offset - run.start, seed);
    const isExpected =
      record !== undefined &&
      record.ordinal === ordinal &&
      record.position === position &&
      record.revision === index.revisionOf(ordinal) &&
      (stream === undefined || streamOf(record.body) === stream);
    if (isExpected) return { position, record: record.body };
    const what =
      record === undefined
        ? "The event's checksum does not match its content."
        : "The file contains another event at this offset.";
    throw damageAt(segments.file(run.segment), offset, `position ${position}`, what);
  });
}
