/**
 * Opens the directory of a log:
 *
 *     lock           names the process that has the log open
 *     events/        the log: segment files and the acknowledged end
 *     events.new/    a log that is being created or migrated; a start removes it
 *     CURRENT        keeps earlier releases from creating an empty LevelDB database here
 *     leveldb/       LevelDB files of an earlier release after their migration; nothing reads them
 */
import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { tryLock } from "../../setup/pid-lock.mjs";
import {
  type Database,
  findLevelDb,
  openLevelDb,
  retireLevelDb,
  setLevelDbAside,
} from "../migration/leveldb.ts";
import { copyLevelDb, requireSameEnd } from "../migration/leveldb-migration.ts";
import { damageOf, LogDamagedError, LogStartError } from "../model/log-errors.ts";
import { createEvents, type OpenLog, type OpenOptions, openEvents } from "../storage/events-directory.ts";
import { syncDirectory } from "../storage/segments.ts";

/**
 * Locks the directory, creates or migrates the log if necessary, and verifies it.
 *
 * @throws LogStartError if another process uses the directory, or it cannot be opened
 * @throws LogDamagedError if acknowledged data is missing or changed
 */
export async function openLogDirectory(dir: string, options: OpenOptions): Promise<OpenLog> {
  const release = await lockDirectory(dir);
  try {
    const open = await openLocked(dir, options);
    return {
      ...open,
      close: async () => {
        await open.close();
        release();
      },
    };
  } catch (error) {
    release();
    throw cannotOpen(dir, error);
  }
}

async function lockDirectory(dir: string): Promise<() => void> {
  try {
    await mkdir(dir, { recursive: true });
    const { release } = tryLock(join(dir, "lock"));
    if (release !== undefined) return release;
  } catch (error) {
    throw cannotOpen(dir, error);
  }
  throw new LogStartError(`The log in ${dir} is in use by another process.`);
}

async function openLocked(dir: string, options: OpenOptions): Promise<OpenLog> {
  const events = join(dir, "events");
  const state = await findLevelDb(dir);
  if (state === "retired" && !existsSync(events)) throw damageOf(events, "The directory is missing.");
  // While it is open, LevelDB's own lock prevents an earlier release from writing to it.
  const database = state === "database" ? await openLevelDb(dir) : undefined;
  let open: OpenLog | undefined;
  try {
    if (!existsSync(events)) await build(dir, events, database, options);
    open = await openEvents(events, options);
    if (database !== undefined) await requireSameEnd(database, dir, open.log);
    if (state !== "retired") await retireLevelDb(dir, database !== undefined);
  } catch (error) {
    await closeAll(open, database);
    throw error;
  }
  try {
    await database?.close();
    await setLevelDbAside(dir);
  } catch (error) {
    await closeAll(open);
    throw error;
  }
  if (database !== undefined) {
    const { events: count } = open.log.index;
    options.log(`Migrated ${count} events. ${dir}/leveldb keeps the former files and can be deleted.`);
  }
  return open;
}

/** Closes what is open after an error. That error is reported, so those of closing are not. */
async function closeAll(...open: ({ close(): Promise<void> } | undefined)[]): Promise<void> {
  await Promise.allSettled(open.map((resource) => resource?.close()));
}

/** Creates the log with the content of a LevelDB database, if there is one. A crash leaves a complete log or none. */
async function build(
  dir: string,
  events: string,
  database: Database | undefined,
  options: OpenOptions,
): Promise<void> {
  const unfinished = `${events}.new`;
  await rm(unfinished, { recursive: true, force: true });
  try {
    await createEvents(unfinished);
    if (database !== undefined) await copyLevelDb(database, dir, unfinished, options);
  } catch (error) {
    // Frees the space: the database still has the data.
    await rm(unfinished, { recursive: true, force: true });
    throw error;
  }
  await rename(unfinished, events);
  await syncDirectory(dir);
}

function cannotOpen(dir: string, error: unknown): Error {
  if (error instanceof LogStartError || error instanceof LogDamagedError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new LogStartError(`The log in ${dir} cannot be opened: ${reason.replaceAll("\n", " ")}`, {
    cause: error,
  });
}
