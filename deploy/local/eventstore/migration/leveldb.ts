/** Finds, opens and moves away the LevelDB database that contains the log of an earlier release. */
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { ClassicLevel } from "classic-level";
import { createDamageError, LogStartError } from "../model/log-errors.ts";
import { createFile, syncDirectory } from "../storage/segments.ts";
import { FORMAT_KEY } from "./leveldb-keys.ts";

export type LevelDb = ClassicLevel<Buffer, Buffer>;

const FORMER_FORMAT = "1";

/** Names of LevelDB files that contain data. */
const DATA_FILE_PATTERN = /^(MANIFEST-\d+|\d+\.(ldb|sst|log))$/;
/** Names of LevelDB files that contain no data. */
const NON_DATA_FILE_PATTERN = /^(LOG|LOG\.old|LOCK)$/;

/**
 * Content of the file CURRENT after the migration. LevelDB interprets this content as the name of a missing file, so an
 * earlier release does not start, and its error message contains this text. Without CURRENT, the earlier release would
 * create an empty log.
 */
const RETIRED_CONTENT = "this-log-is-kept-in-segment-files-which-need-a-newer-release\n";

/**
 * Determines whether the directory contains the LevelDB database of an earlier release.
 *
 * @returns "database" if a database contains the log, "retired" if the log was migrated to segment files, "none"
 * otherwise
 * @throws LogDamagedError if the database's file CURRENT is missing or damaged
 */
export async function readLevelDbState(dir: string): Promise<"database" | "retired" | "none"> {
  const currentFile = join(dir, "CURRENT");
  if (existsSync(currentFile)) {
    const content = await readFile(currentFile, "latin1");
    if (content === RETIRED_CONTENT) return "retired";
    if (content.startsWith("MANIFEST-")) return "database";
    throw createDamageError(currentFile, "The file refers to neither a LevelDB database nor a migrated log.");
  }
  if (existsSync(join(dir, "events"))) return "none";
  const fileNames = await readdir(dir);
  if (fileNames.some((name) => DATA_FILE_PATTERN.test(name)))
    throw createDamageError(currentFile, "The file is missing.");
  return "none";
}

/**
 * Opens the LevelDB database of an earlier release.
 *
 * @throws LogStartError if another process uses the database, or its format is unknown
 * @throws LogDamagedError if LevelDB reports damage
 */
export async function openLevelDb(dir: string): Promise<LevelDb> {
  const database: LevelDb = new ClassicLevel(dir, {
    keyEncoding: "buffer",
    valueEncoding: "buffer",
    createIfMissing: false,
  });
  try {
    await database.open();
  } catch (error) {
    throw toOpenError(dir, error);
  }
  try {
    const format = (await database.get(FORMAT_KEY))?.toString();
    if (format === FORMER_FORMAT) return database;
    throw new LogStartError(`The log in ${dir} has the unknown format ${format ?? "(none)"}.`);
  } catch (error) {
    await database.close();
    throw error;
  }
}

/**
 * Prevents earlier releases from using the directory. The segment files must already contain the whole log.
 *
 * @param isDatabase true if the directory contains a database; its file CURRENT is then copied to `leveldb/`
 */
export async function retireLevelDb(dir: string, isDatabase: boolean): Promise<void> {
  const currentFile = join(dir, "CURRENT");
  if (isDatabase) {
    await mkdir(join(dir, "leveldb"), { recursive: true, mode: 0o700 });
    await createFile(join(dir, "leveldb"), "CURRENT", await readFile(currentFile));
  }
  await createFile(dir, "CURRENT", Buffer.from(RETIRED_CONTENT));
}

/** Moves the files of a migrated database to `leveldb/`. If the move is interrupted, the next start completes it. */
export async function moveLevelDbFiles(dir: string): Promise<void> {
  if ((await readLevelDbState(dir)) !== "retired") return;
  const leveldbDir = join(dir, "leveldb");
  const fileNames = await readdir(dir);
  if (!existsSync(leveldbDir) || !fileNames.some((name) => DATA_FILE_PATTERN.test(name))) return;
  for (const name of fileNames.filter((name) => DATA_FILE_PATTERN.test(name) || NON_DATA_FILE_PATTERN.test(name))) {
    await rename(join(dir, name), join(leveldbDir, name));
  }
  await syncDirectory(leveldbDir);
  await syncDirectory(dir);
}

function toOpenError(dir: string, error: unknown): Error {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  const reason = cause instanceof Error ? cause.message.replaceAll("\n", " ") : String(cause);
  if (code === "LEVEL_LOCKED") return new LogStartError(`The log in ${dir} is in use by another process.`);
  if (code === "LEVEL_CORRUPTION") return createDamageError(dir, `LevelDB cannot read the database: ${reason}.`);
  return new LogStartError(`The log in ${dir} cannot be opened: ${reason}`);
}
