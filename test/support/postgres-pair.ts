/**
 * Starts two embedded Postgres servers: a primary, and a standby with streaming replication. Both require TLS and
 * SCRAM, except for the superuser. Their certificate is for `localhost`.
 */
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { type DatabaseUrls, ensureEmbeddedDatabase, withClient } from "../../deploy/local/servers/database-roles.ts";
import { buildSuperuserUrl, preparePostgres } from "../../deploy/local/servers/postgres.ts";
import { type LocalRoot, openLocalRoot } from "../../deploy/local/setup/local-root.ts";
import type { Component } from "../../deploy/local/supervisor/component.ts";
import { eventually } from "./eventually.ts";
import { findFreePort } from "./free-ports.ts";
import { releaseLater } from "./resources.ts";
import { makeTestRoot } from "./stack.ts";

export interface PostgresPair {
  ports: { primary: number; standby: number };
  /** URL for each service, with verified TLS and both hosts. The standby comes first. */
  urls: DatabaseUrls;
  /** Runs SQL as the superuser on one server. */
  query(server: "primary" | "standby", sql: string): Promise<Record<string, unknown>[]>;
  /** Waits until the standby has applied all changes of the primary. */
  waitForStandby(): Promise<void>;
  /** Stops the replication. The standby then lacks all later transactions. */
  detachStandby(): Promise<void>;
  killPrimary(): Promise<void>;
  promoteStandby(): Promise<void>;
  stop(): Promise<void>;
}

/** Returns the path of a file in `test/support/tls`. */
export function getTlsPath(name: string): string {
  return fileURLToPath(new URL(`./tls/${name}`, import.meta.url));
}

/** Rules of pg_hba.conf. Members of the role `with_certificate` also need a client certificate. */
const ACCESS_RULES = `
host    all         postgres            127.0.0.1/32 scram-sha-256
host    replication postgres            127.0.0.1/32 scram-sha-256
hostssl all         +with_certificate   127.0.0.1/32 scram-sha-256 clientcert=verify-ca
hostssl all         all                 127.0.0.1/32 scram-sha-256
`;

/** Starts both servers, and waits until the standby has the database and the roles of the services. */
export async function startPostgresPair(): Promise<PostgresPair> {
  const primary = await prepareServer();
  const { superuser } = primary.root.secrets.postgres;
  configureTls(primary.root);
  // The first start writes settings into the data folder that the standby requires.
  await primary.component.start();
  await primary.component.stop();
  const standby = await prepareServer(primary);
  await primary.component.start();
  await standby.component.start();
  const hosts = [standby, primary].map(({ port }) => `localhost:${port}`).join(",");
  const options = `target_session_attrs=read-write&sslmode=verify-full&sslrootcert=${getTlsPath("test-ca.cert.pem")}`;
  const adminUrl = `postgres://postgres:${superuser}@${hosts}/postgres?${options}`;
  const urls = await ensureEmbeddedDatabase(adminUrl, "clinic", primary.root.secrets.postgres);
  const query: PostgresPair["query"] = (server, sql) => {
    const { port } = { primary, standby }[server];
    return withClient(buildSuperuserUrl(port, superuser), async (client) => (await client.query(sql)).rows);
  };
  const waitForStandby = async () => {
    const [row] = await query("primary", "SELECT pg_current_wal_lsn() AS lsn");
    await eventually("the standby catches up", async () => {
      const sql = `SELECT pg_last_wal_replay_lsn() >= '${row?.lsn}' AS "isCurrent"`;
      return (await query("standby", sql))[0]?.isCurrent === true;
    });
  };
  await waitForStandby();
  return {
    ports: { primary: primary.port, standby: standby.port },
    urls,
    query,
    waitForStandby,
    async detachStandby() {
      await query("standby", "ALTER SYSTEM SET primary_conninfo = ''");
      await query("standby", "SELECT pg_reload_conf()");
      await eventually("the replication ends", async () => {
        return (await query("primary", "SELECT FROM pg_stat_replication")).length === 0;
      });
    },
    killPrimary: () => primary.component.kill(),
    promoteStandby: () => query("standby", "SELECT pg_promote()").then(() => undefined),
    stop: releaseLater(async () => {
      for (const { component, root } of [primary, standby]) {
        await component.kill();
        root.release();
      }
    }),
  };
}

interface PreparedServer {
  port: number;
  root: LocalRoot;
  component: Component;
}

/** Prepares a server without starting it. @param primary if given, the new server is its standby */
async function prepareServer(primary?: PreparedServer): Promise<PreparedServer> {
  const log = (line: string) => process.stderr.write(`${line}\n`);
  const root = await openLocalRoot(makeTestRoot());
  const port = await findFreePort();
  const password = (primary ?? { root }).root.secrets.postgres.superuser;
  if (primary) copyToStandby(primary, root, password);
  const options = { port, password, isEphemeral: true };
  return { port, root, component: await preparePostgres({ ...root, log }, options) };
}

/** Copies the data folder of a primary that is not running. */
function copyToStandby(primary: PreparedServer, standbyRoot: LocalRoot, password: string): void {
  const source = fs.realpathSync(primary.root.paths.postgres);
  const target = standbyRoot.paths.postgres;
  fs.cpSync(source, target, { recursive: true, preserveTimestamps: true });
  addFile(target, "standby.signal", "");
  const conninfo = `host=127.0.0.1 port=${primary.port} user=postgres password=${password}`;
  fs.appendFileSync(path.join(target, "postgresql.auto.conf"), `primary_conninfo = '${conninfo}'\n`);
  const { uid, gid } = fs.statSync(source);
  for (const entry of fs.readdirSync(target, { recursive: true, encoding: "utf8" }))
    fs.chownSync(path.join(target, entry), uid, gid);
  fs.chownSync(target, uid, gid);
}

function configureTls({ paths }: LocalRoot): void {
  const folder = fs.realpathSync(paths.postgres);
  const files = { "server.crt": "localhost.cert.pem", "server.key": "localhost.key.pem", "ca.crt": "test-ca.cert.pem" };
  for (const [name, source] of Object.entries(files))
    addFile(folder, name, fs.readFileSync(getTlsPath(source), "utf8"));
  fs.writeFileSync(path.join(folder, "pg_hba.conf"), ACCESS_RULES);
  fs.appendFileSync(path.join(folder, "postgresql.auto.conf"), "ssl = on\nssl_ca_file = 'ca.crt'\n");
}

/** Creates a file that only the owner of the folder can read. */
function addFile(folder: string, name: string, content: string): void {
  const file = path.join(folder, name);
  const { uid, gid } = fs.statSync(folder);
  fs.writeFileSync(file, content, { mode: 0o600 });
  fs.chownSync(file, uid, gid);
}
