/**
 * Creates and opens the directory of a log:
 *
 *     lock           id of the process that has the log open
 *     events/        the log: segment files and the acknowledged end
 *     events.new/    a new log that is not complete yet; the next start removes it
 */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { tryLock } from "../../setup/processes.mjs";
import type { LogOptions } from "../model/limits.ts";
import { createDamageError, LogDamagedError, LogStartError } from "../model/log-errors.ts";
import { ACKNOWLEDGED_FILE, AcknowledgedEndFile, encodeEnd, isSameLogEnd } from "./acknowledged-end.ts";
import type { CommittedLog } from "./log-reader.ts";
import { LogScan } from "./log-scan.ts";
import { LogWriter } from "./log-writer.ts";
import { computeChecksumSeed, EMPTY_CHAIN, encodeSegmentHeader, SEGMENT_HEADER_BYTES } from "./segment-format.ts";
import { createFile, formatSegmentName, parseSegmentNumber, Segments, syncDirectory } from "./segments.ts";

/** A log that is open for reads and appends. */
export interface OpenLog {
  readonly log: CommittedLog;
  readonly writer: LogWriter;
  close(): Promise<void>;
}

/**
 * Locks the directory, creates the log if necessary, and verifies the log. Drops the last frame if it is incomplete and
 * was never acknowledged.
 *
 * @throws LogStartError if another process uses the directory, or the log cannot be opened
 * @throws LogDamagedError if acknowledged data is missing or changed
 */
export async function openLogDirectory(dir: string, options: LogOptions): Promise<OpenLog> {
  let release: (() => void) | undefined;
  try {
    await mkdir(dir, { recursive: true });
    ({ release } = tryLock(join(dir, "lock")));
    if (release === undefined) throw new LogStartError(`The log in ${dir} is in use by another process.`);
    const releaseLock = release;
    const eventsDir = join(dir, "events");
    if (!existsSync(eventsDir)) await createLog(dir, eventsDir);
    const openLog = await openEventsDirectory(eventsDir, options);
    const close = async () => {
      await openLog.close();
      releaseLock();
    };
    return { ...openLog, close };
  } catch (error) {
    release?.();
    if (error instanceof LogStartError || error instanceof LogDamagedError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new LogStartError(`The log in ${dir} cannot be opened: ${reason.replaceAll("\n", " ")}`, { cause: error });
  }
}

/** The directory `events/` appears only when the log is complete, so a crash cannot leave an incomplete log. */
async function createLog(dir: string, eventsDir: string): Promise<void> {
  const unfinishedDir = `${eventsDir}.new`;
  const logId = randomBytes(16).toString("hex");
  const end = { ...EMPTY_CHAIN, logId, segment: 1, offset: SEGMENT_HEADER_BYTES };
  await rm(unfinishedDir, { recursive: true, force: true });
  await mkdir(unfinishedDir, { mode: 0o700 });
  await createFile(unfinishedDir, formatSegmentName(1), encodeSegmentHeader(logId, 1, EMPTY_CHAIN));
  await createFile(unfinishedDir, ACKNOWLEDGED_FILE, encodeEnd(end));
  await rename(unfinishedDir, eventsDir);
  await syncDirectory(dir);
}

async function openEventsDirectory(dir: string, options: LogOptions): Promise<OpenLog> {
  const segmentCount = await countSegments(dir);
  const endFile = new AcknowledgedEndFile(dir);
  const segments = new Segments(dir);
  const close = async () => {
    await segments.close();
    endFile.close();
  };
  try {
    const acknowledgedEnd = endFile.read();
    const { index, end, incompleteBytes } = await new LogScan(segments, segmentCount, acknowledgedEnd).run();
    if (incompleteBytes > 0) {
      options.printLine(
        `${segments.getPath(segmentCount - 1)}: dropped ${incompleteBytes} bytes at offset ${end.offset}, after position ${end.position}: an incomplete write that was never acknowledged.`,
      );
      await segments.truncate(end.offset);
    }
    await segments.flush();
    if (!isSameLogEnd(end, acknowledgedEnd)) endFile.write(end);
    return {
      log: { index, segments, checksumSeed: computeChecksumSeed(end.logId) },
      writer: new LogWriter(segments, endFile, end, options),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** @throws LogDamagedError if a segment file is missing */
async function countSegments(dir: string): Promise<number> {
  const fileNames = await readdir(dir);
  const segmentNumbers = new Set(fileNames.map(parseSegmentNumber).filter((number) => number !== undefined));
  for (let number = 1; number <= Math.max(1, segmentNumbers.size); number += 1) {
    if (segmentNumbers.has(number)) continue;
    throw createDamageError(join(dir, formatSegmentName(number)), "The segment file is missing.");
  }
  return segmentNumbers.size;
}
