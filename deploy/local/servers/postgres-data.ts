import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { readProcessIdentity } from "../setup/pid-lock.mjs";
import { SetupError } from "../setup/setup-error.ts";
import type { SystemUser } from "../setup/system-user.ts";
import type { PostgresHome } from "./postgres-home.ts";

const execFileAsync = promisify(execFile);

export interface DataFolderOptions {
  /** Password of the superuser `postgres`. */
  password: string;
  user: SystemUser | undefined;
  /**
   * If true, nothing is synced to disk, so the data survives a killed server, but not a power failure. Autovacuum is off,
   * because it starts a process for each database once a minute. Only tests set it to true, which is faster.
   */
  isEphemeral: boolean;
}

/**
 * Creates the data folder if it does not exist. The folder has a temporary name until it is complete, so that a crash
 * leaves no incomplete data folder. Text is sorted by code point, so that the order is the same on every machine.
 */
export async function createDataFolder(home: PostgresHome, options: DataFolderOptions): Promise<void> {
  if (fs.existsSync(path.join(home.dataFolder, "PG_VERSION"))) return;
  const newFolder = `${home.dataFolder}.new`;
  const passwordFile = `${home.dataFolder}.password`;
  const { user } = options;
  fs.rmSync(newFolder, { recursive: true, force: true });
  fs.mkdirSync(newFolder, { recursive: true, mode: 0o700 });
  fs.writeFileSync(passwordFile, `${options.password}\n`, { mode: 0o600 });
  if (user) for (const file of [newFolder, passwordFile]) fs.chownSync(file, user.uid, user.gid);
  const args = ["--username=postgres", `--pwfile=${passwordFile}`, "--auth=scram-sha-256", "--encoding=UTF8"];
  args.push("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", `--pgdata=${newFolder}`);
  if (options.isEphemeral) args.push("--no-sync", "--set=fsync=off", "--set=autovacuum=off");
  try {
    await execFileAsync(home.initdbPath, args, { ...user, cwd: "/", env: { PATH: process.env.PATH, LC_ALL: "C" } });
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    throw new SetupError(`Postgres: cannot create the data folder: ${(stderr || message).trim()}`);
  } finally {
    fs.rmSync(passwordFile, { force: true });
  }
  fs.rmSync(home.dataFolder, { recursive: true, force: true });
  fs.renameSync(newFolder, home.dataFolder);
}

/**
 * Removes the postmaster.pid of a crashed server. Postgres refuses to start if a process has the pid in this file.
 * After a reboot, this can be an unrelated process. The file is removed only if no process uses the data folder.
 *
 * @throws {SetupError} if another Postgres server uses the data folder
 */
export function removeStalePidFile(dataFolder: string, log: (line: string) => void): void {
  const file = path.join(dataFolder, "postmaster.pid");
  if (!fs.existsSync("/proc/self/cwd") || !fs.existsSync(file)) return;
  const recordedPid = Number(fs.readFileSync(file, "utf8").split("\n")[0]);
  if (readProcessIdentity(recordedPid) === undefined) return; // Postgres ignores the file if the process does not exist
  const ownerPid = findProcessesIn(dataFolder)[0];
  if (ownerPid !== undefined)
    throw new SetupError(
      `Postgres: process ${ownerPid} already uses ${dataFolder}. Stop it (kill -INT ${ownerPid}) and try again.`,
    );
  log(`Postgres: removed a stale postmaster.pid. The process that now has pid ${recordedPid} is unrelated.`);
  fs.rmSync(file, { force: true });
}

/**
 * Returns the pids of all processes whose working directory is the given folder. For Postgres processes, this is the
 * data folder.
 */
export function findProcessesIn(folder: string): number[] {
  const realFolder = fs.realpathSync(folder);
  return fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => readWorkingFolder(pid) === realFolder)
    .map(Number);
}

function readWorkingFolder(pid: string): string | undefined {
  try {
    return fs.readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return undefined; // the process ended, or belongs to another user
  }
}
