/**
 * Opens the directory of a log:
 *
 *     lock           id of the process that has the log open
 *     events/        the log: segment files and the acknowledged end
 *     events.new/    a new or migrated log that is not complete yet; the next start removes it
 *     CURRENT        prevents earlier releases from creating an empty LevelDB database in this directory
 *     leveldb/       unused LevelDB files of an earlier release, kept after the migration
 */
import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { tryLock } from "../../setup/pid-lock.mjs";
import { type LevelDb, moveLevelDbFiles, openLevelDb, readLevelDbState, retireLevelDb } from "../migration/leveldb.ts";
import { copyLevelDb, requireSameEnd } from "../migration/leveldb-migration.ts";
import { createDamageError, LogDamagedError, LogStartError } from "../model/log-errors.ts";
import type { LogOptions } from "../model/log-options.ts";
import { createEventsDirectory, type OpenLog, openEventsDirectory } from "../storage/events-directory.ts";
import { syncDirectory } from "../storage/segments.ts";

/**
 * Locks the directory, creates or migrates the log if necessary, and verifies the log.
 *
 * @throws LogStartError if another process uses the directory, or the log cannot be opened
 * @throws LogDamagedError if acknowledged data is missing or changed
 */
export async function openLogDirectory(dir: string, options: LogOptions): Promise<OpenLog> {
  const releaseLock = await lockDirectory(dir);
  try {
    const openLog = await openLockedDirectory(dir, options);
    return {
      ...openLog,
      close: async () => {
        await openLog.close();
        releaseLock();
      },
    };
  } catch (error) {
    releaseLock();
    throw toStartError(dir, error);
  }
}

async function lockDirectory(dir: string): Promise<() => void> {
  try {
    await mkdir(dir, { recursive: true });
    const { release } = tryLock(join(dir, "lock"));
    if (release !== undefined) return release;
  } catch (error) {
    throw toStartError(dir, error);
  }
  throw new LogStartError(`The log in ${dir} is in use by another process.`);
}

async function openLockedDirectory(dir: string, options: LogOptions): Promise<OpenLog> {
  const eventsDir = join(dir, "events");
  const levelDbState = await readLevelDbState(dir);
  if (levelDbState === "retired" && !existsSync(eventsDir))
    throw createDamageError(eventsDir, "The directory is missing.");
  // While this process has the database open, LevelDB's lock prevents an earlier release from writing to it.
  const database = levelDbState === "database" ? await openLevelDb(dir) : undefined;
  let openLog: OpenLog | undefined;
  try {
    if (!existsSync(eventsDir)) await createLog(dir, eventsDir, database, options);
    openLog = await openEventsDirectory(eventsDir, options);
    if (database !== undefined) await requireSameEnd(database, dir, openLog.log);
    if (levelDbState !== "retired") await retireLevelDb(dir, database !== undefined);
    await database?.close();
    await moveLevelDbFiles(dir);
  } catch (error) {
    // The caller reports this error. Errors from closing are ignored.
    await Promise.allSettled([openLog?.close(), database?.close()]);
    throw error;
  }
  if (database !== undefined) {
    const { eventCount } = openLog.log.index;
    options.printLine(`Migrated ${eventCount} events. The LevelDB files are now in ${dir}/leveldb and can be deleted.`);
  }
  return openLog;
}

/**
 * Creates a log. If there is a LevelDB database, copies its events into the log. The directory `events/` appears only
 * when the log is complete, so a crash cannot leave an incomplete log.
 */
async function createLog(
  dir: string,
  eventsDir: string,
  database: LevelDb | undefined,
  options: LogOptions,
): Promise<void> {
  const unfinishedDir = `${eventsDir}.new`;
  await rm(unfinishedDir, { recursive: true, force: true });
  try {
    await createEventsDirectory(unfinishedDir);
    if (database !== undefined) await copyLevelDb(database, dir, unfinishedDir, options);
  } catch (error) {
    // Deletes the incomplete copy to free its space. The database still contains all data.
    await rm(unfinishedDir, { recursive: true, force: true });
    throw error;
  }
  await rename(unfinishedDir, eventsDir);
  await syncDirectory(dir);
}

function toStartError(dir: string, error: unknown): Error {
  if (error instanceof LogStartError || error instanceof LogDamagedError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new LogStartError(`The log in ${dir} cannot be opened: ${reason.replaceAll("\n", " ")}`, {
    cause: error,
  });
}
