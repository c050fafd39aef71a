/** Reads events in pages of limited size, and verifies each event against the index. */
import { createDamageError } from "../model/log-errors.ts";
import { type LogEvent, readStreamName } from "../model/record.ts";
import type { LogFile } from "./log-file.ts";
import { decodeStoredRecord } from "./log-format.ts";
import type { LogIndex } from "./log-index.ts";

/** Maximum number of events on one page. A read loads one page at a time from disk. */
const MAX_PAGE_EVENTS = 1024;

/** An event that exceeds the limit gets its own page. */
const MAX_PAGE_BYTES = 1024 * 1024;

/** Maximum number of disk reads for one page of a stream. If a page needs more disk reads, it is split. */
const MAX_DISK_READS_PER_PAGE = 64;

/** Two events of a stream share a disk read if the gap between them does not exceed this number of bytes. */
const MAX_READ_GAP_BYTES = 64 * 1024;

export interface CommittedLog {
  readonly index: LogIndex;
  readonly file: LogFile;
  /** Initial value for the checksums of records, derived from the log id. */
  readonly checksumSeed: number;
}

interface PositionRange {
  readonly fromPosition: number;
  readonly isInclusive: boolean;
  readonly isBackwards: boolean;
}

interface DiskRead {
  /** Ordinals of the events in ascending order. They need not be consecutive. */
  readonly ordinals: number[];
  readonly start: number;
  end: number;
}

/**
 * Reads the events of all streams in pages, starting at a position. A forward read ends with the event that was the
 * newest when the read started.
 *
 * @throws LogDamagedError if an event of the next page is damaged
 */
export async function* readAllEvents(log: CommittedLog, range: PositionRange): AsyncGenerator<LogEvent[]> {
  const { index } = log;
  const { fromPosition, isInclusive, isBackwards } = range;
  // A forward read starts with this ordinal. A backward read starts with the ordinal before it and ends with ordinal 0.
  let nextOrdinal = index.findOrdinalFrom(isInclusive === isBackwards ? fromPosition + 1 : fromPosition);
  const stopOrdinal = isBackwards ? 0 : index.eventCount;
  while (isBackwards ? nextOrdinal > stopOrdinal : nextOrdinal < stopOrdinal) {
    const diskRead = isBackwards ? planReadBefore(index, nextOrdinal) : planReadFrom(index, nextOrdinal, stopOrdinal);
    const events = await performRead(log, diskRead);
    yield isBackwards ? events.reverse() : events;
    nextOrdinal += isBackwards ? -events.length : events.length;
  }
}

/**
 * Reads the events of a stream in pages, from revision `from` to revision `to`. Both revisions must exist and are
 * included. If `from` is greater than `to`, the stream is read backwards.
 *
 * @throws LogDamagedError if an event of the next page is damaged
 */
export async function* readStreamEvents(
  log: CommittedLog,
  stream: string,
  fromRevision: number,
  toRevision: number,
): AsyncGenerator<LogEvent[]> {
  const isBackwards = fromRevision > toRevision;
  const [firstRevision, lastRevision] = isBackwards ? [toRevision, fromRevision] : [fromRevision, toRevision];
  const ordinals = log.index.findOrdinals(stream, firstRevision, lastRevision);
  for (let count = 0; count < ordinals.length; count += MAX_PAGE_EVENTS) {
    const start = isBackwards ? ordinals.length - count - MAX_PAGE_EVENTS : count;
    const pages = planPages(log.index, ordinals.slice(Math.max(start, 0), start + MAX_PAGE_EVENTS));
    if (isBackwards) pages.reverse();
    for (const diskReads of pages) {
      const events = (await Promise.all(diskReads.map((read) => performRead(log, read, stream)))).flat();
      yield isBackwards ? events.reverse() : events;
    }
  }
}

/** The read stays within the limits of a page. */
function planReadFrom(index: LogIndex, firstOrdinal: number, stopOrdinal: number): DiskRead {
  const diskRead = planRead(index, firstOrdinal);
  const limit = Math.min(stopOrdinal, firstOrdinal + MAX_PAGE_EVENTS);
  let endOrdinal = firstOrdinal + 1;
  while (endOrdinal < limit && index.getEndOffset(endOrdinal) - diskRead.start <= MAX_PAGE_BYTES) endOrdinal += 1;
  return { ...diskRead, ordinals: listOrdinals(firstOrdinal, endOrdinal), end: index.getEndOffset(endOrdinal - 1) };
}

/** The read stays within the limits of a page. */
function planReadBefore(index: LogIndex, endOrdinal: number): DiskRead {
  const diskRead = planRead(index, endOrdinal - 1);
  const limit = Math.max(endOrdinal - MAX_PAGE_EVENTS, 0);
  let firstOrdinal = endOrdinal - 1;
  while (firstOrdinal > limit && diskRead.end - index.getOffset(firstOrdinal - 1) <= MAX_PAGE_BYTES) firstOrdinal -= 1;
  return { ...diskRead, ordinals: listOrdinals(firstOrdinal, endOrdinal), start: index.getOffset(firstOrdinal) };
}

function listOrdinals(firstOrdinal: number, endOrdinal: number): number[] {
  return Array.from({ length: endOrdinal - firstOrdinal }, (_, index) => firstOrdinal + index);
}

/** Nearby events share a disk read. */
function planPages(index: LogIndex, ordinals: readonly number[]): DiskRead[][] {
  const pages: DiskRead[][] = [];
  let page: DiskRead[] = [];
  let pageBytes = 0;
  for (const ordinal of ordinals) {
    const next = planRead(index, ordinal);
    const read = page.at(-1);
    const isNear = read !== undefined && next.start - read.end <= MAX_READ_GAP_BYTES;
    const addedBytes = isNear ? next.end - read.end : next.end - next.start;
    if (
      page.length > 0 &&
      (pageBytes + addedBytes > MAX_PAGE_BYTES || (!isNear && page.length === MAX_DISK_READS_PER_PAGE))
    ) {
      pages.push(page);
      page = [next];
      pageBytes = next.end - next.start;
      continue;
    }
    pageBytes += addedBytes;
    if (isNear) {
      read.ordinals.push(ordinal);
      read.end = next.end;
    } else page.push(next);
  }
  if (page.length > 0) pages.push(page);
  return pages;
}

function planRead(index: LogIndex, ordinal: number): DiskRead {
  return { ordinals: [ordinal], start: index.getOffset(ordinal), end: index.getEndOffset(ordinal) };
}

async function performRead(log: CommittedLog, diskRead: DiskRead, stream?: string): Promise<LogEvent[]> {
  const { index, file, checksumSeed } = log;
  const [firstOrdinal = 0] = diskRead.ordinals;
  const { start, end } = diskRead;
  const bytes = await file.read(start, end - start, index.getPosition(firstOrdinal));
  return diskRead.ordinals.map((ordinal) => {
    const offset = index.getOffset(ordinal);
    const position = index.getPosition(ordinal);
    const record = decodeStoredRecord(bytes, offset - start, checksumSeed);
    const isExpected =
      record !== undefined &&
      record.ordinal === ordinal &&
      record.position === position &&
      record.revision === index.getRevision(ordinal) &&
      (stream === undefined || readStreamName(record.body) === stream);
    if (isExpected) return { position, record: record.body };
    const problem =
      record === undefined
        ? "The event's checksum does not match its content."
        : "The file contains a different event at this offset.";
    throw createDamageError(`${file.path}, offset ${offset}, position ${position}`, problem);
  });
}
