import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { processIdentity } from "../setup/pid-lock.mjs";
import { SetupError } from "../setup/setup-error.ts";
import type { SystemUser } from "../setup/system-user.ts";
import type { PostgresHome } from "./postgres-home.ts";

const run = promisify(execFile);

export interface DataOptions {
  /** Password of the superuser `postgres`. */
  password: string;
  user: SystemUser | undefined;
  /** Whether the new files are synced to disk; a test's throw-away data need not be. */
  sync: boolean;
}

/**
 * Makes the data folder when there is none. It is made beside its place and moved there when complete, so that a kill
 * in between leaves nothing half-made. Text sorts by code point, the same on every machine.
 */
export async function makeDataFolder(home: PostgresHome, options: DataOptions): Promise<void> {
  if (fs.existsSync(path.join(home.data, "PG_VERSION"))) return;
  const fresh = `${home.data}.new`;
  const passwordFile = `${home.data}.password`;
  const { user } = options;
  fs.rmSync(fresh, { recursive: true, force: true });
  fs.mkdirSync(fresh, { recursive: true, mode: 0o700 });
  fs.writeFileSync(passwordFile, `${options.password}\n`, { mode: 0o600 });
  if (user) for (const file of [fresh, passwordFile]) fs.chownSync(file, user.uid, user.gid);
  const args = ["--username=postgres", `--pwfile=${passwordFile}`, "--auth=scram-sha-256", "--encoding=UTF8"];
  args.push("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", `--pgdata=${fresh}`);
  if (!options.sync) args.push("--no-sync");
  try {
    await run(home.initdb, args, { ...user, cwd: "/", env: { PATH: process.env.PATH, LC_ALL: "C" } });
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    throw new SetupError(`Postgres: its data folder could not be made: ${(stderr || message).trim()}`);
  } finally {
    fs.rmSync(passwordFile, { force: true });
  }
  fs.rmSync(home.data, { recursive: true, force: true });
  fs.renameSync(fresh, home.data);
}

/**
 * Clears the way for a start after a crash. Postgres refuses to start while the process number in a crashed server's
 * postmaster.pid is alive, although after a reboot it may be anybody's. The file is removed only when no process at all
 * works in the data folder; a Postgres that does is left alone.
 *
 * @throws {SetupError} when a Postgres that is not ours runs on the data
 */
export function clearStalePid(data: string, log: (line: string) => void): void {
  const file = path.join(data, "postmaster.pid");
  if (!fs.existsSync("/proc/self/cwd") || !fs.existsSync(file)) return;
  const recorded = Number(fs.readFileSync(file, "utf8").split("\n")[0]);
  if (processIdentity(recorded) === undefined) return; // Postgres sees that for itself
  const owner = processesIn(data)[0];
  if (owner !== undefined)
    throw new SetupError(
      `Postgres: process ${owner} already works on ${data}; stop it (kill -INT ${owner}) and try again`,
    );
  log(`Postgres: process ${recorded} is not the server that was killed: removed its postmaster.pid`);
  fs.rmSync(file, { force: true });
}

/** Processes whose working folder is the given one: that is where every process of a Postgres works. */
export function processesIn(folder: string): number[] {
  const real = fs.realpathSync(folder);
  return fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => workingFolder(pid) === real)
    .map(Number);
}

function workingFolder(pid: string): string | undefined {
  try {
    return fs.readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return undefined; // it ended, or belongs to somebody else
  }
}
