/** Backups of running servers, as docs/operations/backup.md describes them. */
import { execFile, spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type pg from "pg";
import { withClient } from "../../deploy/local/servers/database-roles.ts";

const README_PATH = join(import.meta.dirname, "../../deploy/local/eventstore/README.md");
const GUIDE_PATH = join(import.meta.dirname, "../../docs/operations/backup.md");

/** Name of a dump of the data keys in the guide's commands. */
export const DUMP_NAME = "data-keys.sql";

/** Backs up a running embedded log with the commands from its README. */
export async function backUpLog(logFolder: string, backupFolder: string): Promise<void> {
  const [script] = await readScripts(README_PATH, "Backups");
  await runShell(script.replaceAll("LOG", logFolder).replaceAll("BACKUP", backupFolder));
}

/**
 * Backs up a running Postgres server to a new folder. The result equals that of `pg_basebackup --wal-method=fetch`, which
 * the embedded Postgres does not contain.
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

/** Replaces a data folder with a backup. The server of the folder must not run. */
export async function restoreFolder(backupFolder: string, folder: string): Promise<void> {
  await runShell(`rm --recursive --force '${folder}'; cp --archive '${backupFolder}' '${folder}'`);
}

/**
 * Dumps the data keys with the command of the guide. If no `pg_dump` is new enough for the server, for example for the
 * embedded Postgres, which does not contain it, the dump has the same rows in another format.
 *
 * @param databaseUrl URL of the database's owner
 * @param folder folder in which the dump gets the name {@link DUMP_NAME}
 */
export async function dumpDataKeys(databaseUrl: string, folder: string): Promise<void> {
  const [dumpScript] = await readScripts(GUIDE_PATH, "Data keys");
  await withClient(databaseUrl, async (client) => {
    if (await canDump(client)) return runShell(dumpScript, { cwd: folder, databaseUrl });
    const { rows } = await client.query("SELECT jsonb_agg(to_jsonb(k)) AS rows FROM data_keys.data_key k");
    await writeFile(join(folder, DUMP_NAME), JSON.stringify(rows[0].rows));
  });
}

/** Replaces the data keys of a database by those of a dump from {@link dumpDataKeys}. */
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

/** Tells whether the installed `pg_dump` supports the server. It refuses servers that are newer. */
async function canDump(client: pg.Client): Promise<boolean> {
  const { stdout } = spawnSync("pg_dump", ["--version"], { encoding: "utf8" });
  const [, programVersion] = /(\d+)/.exec(stdout ?? "") ?? [];
  const { rows } = await client.query("SELECT current_setting('server_version_num')::integer / 10000 AS version");
  return Number(programVersion) >= rows[0].version;
}

/** Reads the shell scripts in the section of a document. @throws if there is none */
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
