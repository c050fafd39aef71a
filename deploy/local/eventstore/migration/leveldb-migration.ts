/**
 * Copies the log from LevelDB into segment files. Positions, revisions, ids and times stay the same.
 *
 * By default, LevelDB does not verify checksums when it reads, so the migration checks the data itself. Every position
 * must follow from the previous event, and every record must match its key. The database's index and its stream states
 * must match the events. If a check fails, the migration stops and leaves the database unchanged.
 */
import { MAX_PAGE_BYTES, MAX_PAGE_EVENTS } from "../model/limits.ts";
import { createDamageError, type LogDamagedError, LogStartError } from "../model/log-errors.ts";
import type { LogOptions } from "../model/log-options.ts";
import { streams } from "../model/pb.ts";
import { computePosition, readEventType, readStreamName, readWireBytes } from "../model/record.ts";
import type { StreamState } from "../model/stream-state.ts";
import { DiskFullError } from "../storage/disk-full.ts";
import { openEventsDirectory } from "../storage/events-directory.ts";
import { indexRecord } from "../storage/index-record.ts";
import type { LogIndex } from "../storage/log-index.ts";
import { type CommittedLog, readAllEvents } from "../storage/log-reader.ts";
import { requireWithinLimits } from "../storage/log-scan.ts";
import { type StoredRecord, TOMBSTONE_REVISION } from "../storage/segment-format.ts";
import type { LevelDb } from "./leveldb.ts";
import {
  EVENT_KEY_RANGE,
  type KeyRange,
  parseEventKey,
  parseRevisionKey,
  parseRevisionValue,
  parseStreamStateKey,
  REVISION_KEY_RANGE,
  STREAM_STATE_KEY_RANGE,
} from "./leveldb-keys.ts";

const PROGRESS_INTERVAL_MS = 2_000;

/**
 * Copies all events into an empty log.
 *
 * @param dir directory of the database, for messages
 * @param logDir directory `events/` of the empty log
 * @throws LogDamagedError if events are missing or contradict each other
 * @throws LogStartError if the disk has no space for the copy, or the log exceeds its limits
 */
export async function copyLevelDb(database: LevelDb, dir: string, logDir: string, options: LogOptions): Promise<void> {
  const openLog = await openEventsDirectory(logDir, options);
  const { index } = openLog.log;
  let nextReportAt = 0;
  options.printLine(`Migrating the log in ${dir} to segment files. The LevelDB files are kept.`);
  try {
    for await (const entries of readEntries(database, EVENT_KEY_RANGE)) {
      const records = entries.map(([key, value]) => {
        const record = parseStoredRecord(dir, index, parseEventKey(key), value);
        const problem = indexRecord(index, record, 0);
        if (problem !== undefined) throw createPositionError(dir, record.position, problem);
        return record;
      });
      requireWithinLimits(index, options.limits);
      await openLog.writer.append(records);
      if (openLog.writer.end.segment > options.limits.maxSegments) {
        throw new LogStartError(
          `The log in ${dir} cannot be migrated: it needs more than the limit of ${options.limits.maxSegments} segments. Nothing was changed.`,
        );
      }
      if (performance.now() < nextReportAt) continue;
      options.printLine(`Migrating the log: ${index.eventCount} events so far, up to position ${index.lastPosition}.`);
      nextReportAt = performance.now() + PROGRESS_INTERVAL_MS;
    }
    await compareRevisions(database, dir, index);
    await compareStreamStates(database, dir, index);
  } catch (error) {
    if (!(error instanceof DiskFullError)) throw error;
    throw new LogStartError(
      `The log in ${dir} cannot be migrated: the disk is full. Nothing was changed. Free some space and start again.`,
    );
  } finally {
    await openLog.close();
  }
}

/**
 * Verifies that a database and its copy end with the same event. The last events differ if a crash interrupted the
 * migration and an earlier release then wrote to the database.
 *
 * @throws LogStartError if the last events differ
 */
export async function requireSameEnd(database: LevelDb, dir: string, log: CommittedLog): Promise<void> {
  let lastEntry: [Buffer, Buffer] | undefined;
  for await (const entry of database.iterator({ ...EVENT_KEY_RANGE, reverse: true, limit: 1 })) lastEntry = entry;
  const position = lastEntry === undefined ? 0 : parseEventKey(lastEntry[0]);
  let isSameEnd = position === log.index.lastPosition;
  if (lastEntry !== undefined && isSameEnd) {
    const range = { fromPosition: position, isInclusive: true, isBackwards: false };
    for await (const [event] of readAllEvents(log, range)) isSameEnd = event?.record.equals(lastEntry[1]) === true;
  }
  if (isSameEnd) return;
  throw new LogStartError(
    `${dir} contains two different logs: the LevelDB files end at position ${position}, but the log in events/ ends at position ${log.index.lastPosition}. Move one of them away, or restore a backup.`,
  );
}

/** Decodes an event from the database. Checks that the event matches its key and follows the previous event. */
function parseStoredRecord(dir: string, index: LogIndex, position: number, body: Buffer): StoredRecord {
  const storedEvent = decodeReadEvent(body);
  const event = storedEvent?.getEvent();
  if (storedEvent === undefined || event === undefined)
    throw createPositionError(dir, position, "The event cannot be read.");
  const stream = readStreamName(body);
  const type = readEventType(body);
  const streamName = Buffer.from(event.getStreamIdentifier()?.getStreamName_asU8() ?? []).toString();
  const isConsistent =
    storedEvent.getCommitPosition() === String(position) &&
    event.getCommitPosition() === String(position) &&
    streamName === stream &&
    event.getMetadataMap().get("type") === type;
  if (!isConsistent) throw createPositionError(dir, position, "The event does not match its key in the database.");
  const content = { type, data: event.getData_asU8(), metadata: event.getCustomMetadata_asU8() };
  if (computePosition(index.lastPosition, stream, content) !== position) {
    throw createPositionError(
      dir,
      position,
      `Events are missing between position ${index.lastPosition} and this position.`,
    );
  }
  const revision = event.getStreamRevision();
  const isTombstone = revision === String(TOMBSTONE_REVISION);
  return { ordinal: index.eventCount, position, revision: isTombstone ? undefined : Number(revision), body };
}

function createPositionError(dir: string, position: number, problem: string): LogDamagedError {
  return createDamageError(dir, `Position ${position}: ${problem}`);
}

function decodeReadEvent(body: Buffer) {
  try {
    return streams.ReadResp.deserializeBinary(readWireBytes(body)).getEvent();
  } catch {
    return undefined;
  }
}

/** Compares the database's index of revisions with the events. This detects missing events at the end of the log. */
async function compareRevisions(database: LevelDb, dir: string, index: LogIndex): Promise<void> {
  for await (const entries of readEntries(database, REVISION_KEY_RANGE)) {
    for (const [key, value] of entries) {
      const { stream, revision } = parseRevisionKey(key);
      const ordinal = index.findOrdinal(stream, revision);
      const position = parseRevisionValue(value);
      if (ordinal !== undefined && index.getPosition(ordinal) === position) continue;
      throw createPositionError(dir, position, `Revision ${revision} of the stream '${stream}' is missing.`);
    }
  }
}

/** Compares the stored state of each stream with the state computed from the events. */
async function compareStreamStates(database: LevelDb, dir: string, index: LogIndex): Promise<void> {
  for await (const entries of readEntries(database, STREAM_STATE_KEY_RANGE)) {
    for (const [key, value] of entries) {
      const stream = parseStreamStateKey(key);
      if (value.toString("latin1") === formatFormerState(index.getStreamState(stream))) continue;
      throw createDamageError(dir, `The events of the stream '${stream}' do not match its state in the database.`);
    }
  }
}

/** Formats the state of a stream in the format that earlier releases stored. */
function formatFormerState(state: StreamState): string {
  const flags = [state.isTombstoned, state.isSoftDeleted].map(Number);
  return JSON.stringify([state.lastRevision, ...flags, state.truncateBefore, state.maxCount]);
}

async function* readEntries(database: LevelDb, range: KeyRange): AsyncGenerator<[Buffer, Buffer][]> {
  const iterator = database.iterator({ ...range, highWaterMarkBytes: MAX_PAGE_BYTES });
  try {
    for (;;) {
      const entries = await iterator.nextv(MAX_PAGE_EVENTS);
      if (entries.length === 0) return;
      yield entries;
    }
  } finally {
    await iterator.close();
  }
}
