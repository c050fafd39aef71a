/** Creates and opens the directory `events/` with the segment files and the acknowledged end of a log. */
import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { createDamageError, LogStartError } from "../model/log-errors.ts";
import type { LogOptions } from "../model/log-options.ts";
import { ACKNOWLEDGED_FILE, AcknowledgedEndFile, encodeEnd, isSameLogEnd } from "./acknowledged-end.ts";
import type { CommittedLog } from "./log-reader.ts";
import { LogScan } from "./log-scan.ts";
import { LogWriter } from "./log-writer.ts";
import { computeChecksumSeed, EMPTY_CHAIN, encodeSegmentHeader, SEGMENT_HEADER_BYTES } from "./segment-format.ts";
import { createFile, formatSegmentName, isUnfinishedFile, parseSegmentNumber, Segments } from "./segments.ts";

/** A log that is open for reads and appends. */
export interface OpenLog {
  readonly log: CommittedLog;
  readonly writer: LogWriter;
  close(): Promise<void>;
}

/** Creates a directory with an empty log. When the promise resolves, all files are flushed to disk. */
export async function createEventsDirectory(dir: string): Promise<void> {
  const logId = randomBytes(16).toString("hex");
  await mkdir(dir, { mode: 0o700 });
  await createFile(dir, formatSegmentName(1), encodeSegmentHeader(logId, 1, EMPTY_CHAIN));
  const end = { ...EMPTY_CHAIN, logId, segment: 1, offset: SEGMENT_HEADER_BYTES };
  await createFile(dir, ACKNOWLEDGED_FILE, encodeEnd(end));
}

/**
 * Opens and verifies a log. Drops the last frame if it is incomplete and was never acknowledged.
 *
 * @throws LogDamagedError if acknowledged data is missing or changed
 * @throws LogStartError if the log exceeds a limit, or has an unsupported format
 */
export async function openEventsDirectory(dir: string, options: LogOptions): Promise<OpenLog> {
  const segmentCount = await countSegments(dir);
  if (segmentCount > options.limits.maxSegments) {
    throw new LogStartError(
      `The log in ${dir} has ${segmentCount} segments. The limit is ${options.limits.maxSegments}.`,
    );
  }
  const endFile = new AcknowledgedEndFile(dir);
  const segments = new Segments(dir);
  const close = async () => {
    await segments.close();
    endFile.close();
  };
  try {
    const acknowledgedEnd = endFile.read();
    const { index, end, incompleteBytes } = await new LogScan(segments, segmentCount, acknowledgedEnd, options).run();
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

/**
 * Counts the segment files. Removes unfinished files that a crash left behind.
 *
 * @throws LogDamagedError if a segment file is missing
 */
async function countSegments(dir: string): Promise<number> {
  const fileNames = await readdir(dir);
  for (const name of fileNames.filter(isUnfinishedFile)) await rm(join(dir, name));
  const segmentNumbers = new Set(fileNames.map(parseSegmentNumber).filter((number) => number !== undefined));
  for (let number = 1; number <= Math.max(1, segmentNumbers.size); number += 1) {
    if (segmentNumbers.has(number)) continue;
    throw createDamageError(join(dir, formatSegmentName(number)), "The segment file is missing.");
  }
  return segmentNumbers.size;
}
