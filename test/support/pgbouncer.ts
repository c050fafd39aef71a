import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { type DatabaseUrls, withClient } from "../../deploy/local/servers/database-roles.ts";
import { ensurePostgresUser } from "../../deploy/local/servers/postgres-home.ts";
import { findOnPath } from "../../deploy/local/setup/system-package.ts";
import { eventually } from "./eventually.ts";
import { findFreePort } from "./free-ports.ts";
import { releaseLater } from "./resources.ts";
import { makeTestRoot } from "./stack.ts";

export type PoolMode = "session" | "transaction" | "statement";

export interface PgBouncer {
  /** URLs of the databases through PgBouncer. */
  urls: DatabaseUrls;
  stop(): Promise<void>;
}

/**
 * Returns the path of PgBouncer: the value of PGBOUNCER_PATH, or else the program on the PATH. Undefined if neither
 * exists.
 */
export function findPgBouncer(): string | undefined {
  return process.env.PGBOUNCER_PATH || findOnPath("pgbouncer");
}

/** Starts PgBouncer with the settings of docs/operations/postgres.md, and waits until it accepts connections. */
export async function startPgBouncer(program: string, urls: DatabaseUrls, mode: PoolMode): Promise<PgBouncer> {
  const folder = makeTestRoot();
  const port = await findFreePort();
  const users = Object.values(urls).map((url) => new URL(url));
  fs.writeFileSync(
    path.join(folder, "users"),
    users.map(({ username, password }) => `"${username}" "${decodeURIComponent(password)}"\n`).join(""),
  );
  const settings = {
    ...{ listen_addr: "127.0.0.1", listen_port: port, unix_socket_dir: "", pool_mode: mode },
    ...{ auth_type: "scram-sha-256", auth_file: path.join(folder, "users"), default_pool_size: 20 },
    ignore_startup_parameters: "statement_timeout, options",
  };
  const settingLines = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`);
  const databaseLines = `[databases]\n* = host=127.0.0.1 port=${users[0]?.port}\n`;
  fs.writeFileSync(path.join(folder, "ini"), `${databaseLines}[pgbouncer]\n${settingLines.join("")}`);
  const user = await ensurePostgresUser();
  const child = spawn(program, [path.join(folder, "ini")], { ...user, stdio: "ignore" });
  const exitPromise = once(child, "exit");
  const buildUrl = (url: string) => Object.assign(new URL(url), { port }).href;
  const pgBouncer: PgBouncer = {
    urls: {
      projection: buildUrl(urls.projection),
      command: buildUrl(urls.command),
      query: buildUrl(urls.query),
      audit: buildUrl(urls.audit),
    },
    stop: releaseLater(async () => {
      child.kill("SIGKILL");
      await exitPromise;
    }),
  };
  await eventually("PgBouncer", () =>
    withClient(pgBouncer.urls.query, (client) => client.query("SELECT")).then(
      () => true,
      () => false,
    ),
  );
  return pgBouncer;
}
