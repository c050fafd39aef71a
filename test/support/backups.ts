/** Backs up and restores servers as docs/operations/backup.md describes. */
import { execFile, spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type pg from "pg";
import { withClient } from "../../deploy/local/servers/database-roles.ts";

const README_PATH = join(import.meta.dirname, "../../deploy/local/eventstore/README.md");
const GUIDE_PATH = join(import.meta.dirname, "../../docs/operations/backup.md");

/** File name of the data keys' dump in the guide's commands. */
export const DUMP_NAME = "data-keys.sql";

/** Backs up a running embedded log with the commands from its README. */
export async function backUpLog(logFolder: string, backupFolder: string): Promise<void> {
  const [script] = await readScripts(README_PATH, "Backups");
  await runShell(script.replaceAll("LOG", logFolder).replaceAll("BACKUP", backupFolder));
}

/**
 * Backs up a running Postgres server to a new folder. The result equals that of `pg_basebackup --wal-method=fetch`,
 * which the embedded Postgres lacks.
 *
 * @param adminUrl URL of a superuser
 */
export async function backUpPostgres(adminUrl: string, dataFolder: string, backupFolder: string): Promise<void> {
  await withClient(adminUrl, async (client) => {
    // Files may change while tar reads them. The WAL, which is copied last, repairs such files.
    await client.query("SELECT pg_backup_start('backup', fast => true)");
    await runShell(
      `mkdir '${backupFolder}'; chown --reference='${dataFolder}' '${backupFolder}'; chmod 700 '${backupFolder}';
       cd '${dataFolder}'; tar --create --exclude=./pg_wal/* --exclude=./postmaster.* . |
         tar --extract --directory '${backupFolder}'`,
    );
    const { rows } = await client.query("SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)");
    await writeFile(join(backupFolder, "backup_label"), rows[0].labelfile);
    await runShell(
      `cp --archive '${dataFolder}'/pg_wal/. '${backupFolder}'/pg_wal/
       chown --reference='${dataFolder}' '${backupFolder}/backup_label'`,
    );
  });
}

/** Replaces a data folder with a backup. Its server must be stopped. */
export async function restoreFolder(backupFolder: string, folder: string): Promise<void> {
  await runShell(`rm --recursive --force '${folder}'; cp --archive '${backupFolder}' '${folder}'`);
}

/**
 * Dumps the data keys with the guide's command. If no installed `pg_dump` supports the server, writes the rows as JSON
 * instead. The embedded Postgres has no `pg_dump`.
 *
 * @param databaseUrl URL of the database's owner
 * @param folder destination of the file {@link DUMP_NAME}
 */
export async function dumpDataKeys(databaseUrl: string, folder: string): Promise<void> {
  const [dumpScript] = await readScripts(GUIDE_PATH, "Data keys");
  await withClient(databaseUrl, async (client) => {
    if (await canDump(client)) return runShell(dumpScript, { cwd: folder, databaseUrl });
    const { rows } = await client.query("SELECT jsonb_agg(to_jsonb(k)) AS rows FROM data_keys.data_key k");
    await writeFile(join(folder, DUMP_NAME), JSON.stringify(rows[0].rows));
  });
}

/** Replaces the data keys in a database with those of {@link dumpDataKeys}. */
export async function restoreDataKeys(databaseUrl: string, folder: string): Promise<void> {
  const [, restoreScript = ""] = await readScripts(GUIDE_PATH, "Data keys");
  await withClient(databaseUrl, async (client) => {
    if (await canDump(client)) return runShell(restoreScript, { cwd: folder, databaseUrl });
    const rows = await readFile(join(folder, DUMP_NAME), "utf8");
    await client.query("TRUNCATE data_keys.data_key");
    await client.query(
      "INSERT INTO data_keys.data_key SELECT * FROM jsonb_populate_recordset(NULL::data_keys.data_key, $1)",
      [rows],
    );
  });
}

/** Returns true if `pg_dump` is installed and not older than the server. */
async function canDump(client: pg.Client): Promise<boolean> {
  const { stdout } = spawnSync("pg_dump", ["--version"], { encoding: "utf8" });
  const [, programVersion] = /(\d+)/.exec(stdout ?? "") ?? [];
  const { rows } = await client.query("SELECT current_setting('server_version_num')::integer / 10000 AS version");
  return Number(programVersion) >= rows[0].version;
}

/** Reads the shell scripts in a section of a document. @throws {Error} if there is none */
async function readScripts(file: string, heading: string): Promise<[string, ...string[]]> {
  const text = await readFile(file, "utf8");
  const [, section = ""] = new RegExp(`\n##+ ${heading}\n([\\s\\S]*?)(?=\n##|$)`).exec(text) ?? [];
  const [first, ...others] = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, script = ""]) => script);
  if (first === undefined) throw new Error(`${file} does not contain commands below ${heading}`);
  return [first, ...others];
}

async function runShell(script: string, { cwd = "/", databaseUrl = "" } = {}): Promise<void> {
  await promisify(execFile)("sh", ["-ec", script], { cwd, env: { ...process.env, DATABASE_URL: databaseUrl } });
}
