/**
 * Opens the directory of a log:
 *
 *     lock           id of the process that has the log open
 *     events/        the log: segment files and the acknowledged end
 *     events.new/    a new log that is not complete yet; the next start removes it
 */
import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { tryLock } from "../../setup/processes.mjs";
import { LogDamagedError, LogStartError } from "../model/log-errors.ts";
import type { LogOptions } from "../model/log-options.ts";
import { createEventsDirectory, type OpenLog, openEventsDirectory } from "../storage/events-directory.ts";
import { syncDirectory } from "../storage/segments.ts";

/**
 * Locks the directory, creates the log if necessary, and verifies the log.
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
  await rm(unfinishedDir, { recursive: true, force: true });
  await createEventsDirectory(unfinishedDir);
  await rename(unfinishedDir, eventsDir);
  await syncDirectory(dir);
}
