/**
 * Creates and opens the directory of a log:
 *
 *     lock           id of the process that has the log open
 *     events/        the log: the files `log` and `acknowledged`
 *     events.new/    a new log that is not complete yet; the next start removes it
 */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { tryLock } from "../../setup/processes.mjs";
import { LogDamagedError, LogStartError } from "../model/log-errors.ts";
import { ACKNOWLEDGED_FILE, AcknowledgedEndFile, encodeEnd, isSameLogEnd } from "./acknowledged-end.ts";
import { createFile, LogFile, syncDirectory } from "./log-file.ts";
import { computeChecksumSeed, EMPTY_CHAIN, encodeLogHeader, LOG_HEADER_BYTES } from "./log-format.ts";
import type { CommittedLog } from "./log-reader.ts";
import { scanLog } from "./log-scan.ts";
import { type LogOptions, LogWriter } from "./log-writer.ts";

const LOG_FILE = "log";

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

/**
 * Creates the log in another directory and renames it to `events/` when it is complete. So a crash leaves no partial
 * log.
 */
async function createLog(dir: string, eventsDir: string): Promise<void> {
  const unfinishedDir = `${eventsDir}.new`;
  const logId = randomBytes(16).toString("hex");
  const end = { ...EMPTY_CHAIN, logId, offset: LOG_HEADER_BYTES };
  await rm(unfinishedDir, { recursive: true, force: true });
  await mkdir(unfinishedDir, { mode: 0o700 });
  await createFile(unfinishedDir, LOG_FILE, encodeLogHeader(logId));
  await createFile(unfinishedDir, ACKNOWLEDGED_FILE, encodeEnd(end));
  await syncDirectory(unfinishedDir);
  await rename(unfinishedDir, eventsDir);
  await syncDirectory(dir);
}

async function openEventsDirectory(dir: string, options: LogOptions): Promise<OpenLog> {
  const endFile = new AcknowledgedEndFile(dir);
  let file: LogFile | undefined;
  const close = async () => {
    file?.close();
    endFile.close();
  };
  try {
    file = new LogFile(join(dir, LOG_FILE));
    const acknowledgedEnd = endFile.read();
    const { index, end, incompleteBytes } = await scanLog(file, acknowledgedEnd);
    if (incompleteBytes > 0) {
      options.printLine(
        `${file.path}: dropped ${incompleteBytes} bytes at offset ${end.offset}, after position ${end.position}: an incomplete write that was never acknowledged.`,
      );
      await file.truncate(end.offset);
    }
    await file.rewrite(acknowledgedEnd.offset, end.offset, end.position);
    await file.flush();
    if (!isSameLogEnd(end, acknowledgedEnd)) endFile.write(end);
    return {
      log: { index, file, checksumSeed: computeChecksumSeed(end.logId) },
      writer: new LogWriter(file, endFile, end, options),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
