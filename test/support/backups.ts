/** Backups of running servers, as docs/operations/backup.md describes them. */
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { withClient } from "../../deploy/local/servers/database-roles.ts";

const README_PATH = join(import.meta.dirname, "../../deploy/local/eventstore/README.md");

/** Backs up a running embedded log with the commands from its README. */
export async function backUpLog(logFolder: string, backupFolder: string): Promise<void> {
  const readme = await readFile(README_PATH, "utf8");
  const [, script] = /## Backups\n[\s\S]*?```sh\n([\s\S]*?)```/.exec(readme) ?? [];
  if (script === undefined) throw new Error("the README does not contain commands for a backup");
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

async function runShell(script: string): Promise<void> {
  await promisify(execFile)("sh", ["-ec", script]);
}
