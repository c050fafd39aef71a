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

interface DiskRead {
  /** Ordinals of the events in ascending order. They need not be consecutive. */
  readonly ordinals: number[];
  readonly start: number;
  end: number;
}

/**
 * Reads the events of all streams in pages, starting at a position. A forward read includes the event at this position,
 * and ends with the event that was the newest when the read started. A backward read starts before the position.
 *
 * @throws LogDamagedError if an event of the next page is damaged
 */
export async function* readAllEvents(
  log: CommittedLog,
  fromPosition: number,
  isBackwards: boolean,
): AsyncGenerator<LogEvent[]> {
  const { index } = log;
  const bound = index.findOrdinalFrom(fromPosition);
  const [first, count] = isBackwards ? [0, bound] : [bound, index.eventCount - bound];
  yield* readPages(log, count, isBackwards, (start, end) =>
    Array.from({ length: end - start }, (_, offset) => first + start + offset),
  );
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
  yield* readPages(log, ordinals.length, isBackwards, (start, end) => ordinals.slice(start, end), stream);
}

/**
 * @param listOrdinals returns the ordinals from index `start` up to, but not including, index `end`, in ascending order
 */
async function* readPages(
  log: CommittedLog,
  count: number,
  isBackwards: boolean,
  listOrdinals: (start: number, end: number) => number[],
  stream?: string,
): AsyncGenerator<LogEvent[]> {
  for (let doneCount = 0; doneCount < count; doneCount += MAX_PAGE_EVENTS) {
    const nextCount = Math.min(doneCount + MAX_PAGE_EVENTS, count);
    const ordinals = isBackwards
      ? listOrdinals(count - nextCount, count - doneCount)
      : listOrdinals(doneCount, nextCount);
    const pages = planPages(log.index, ordinals);
    if (isBackwards) pages.reverse();
    for (const diskReads of pages) {
      const events = (await Promise.all(diskReads.map((read) => performRead(log, read, stream)))).flat();
      yield isBackwards ? events.reverse() : events;
    }
  }
}

/** Divides events into pages, and each page into disk reads. Nearby events share a disk read. */
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
