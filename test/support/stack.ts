/**
 * Starts real servers for tests. The tests of one mocha process share a set of servers, which is started on first use.
 * Fault tests start complete stacks. EVENTSTORE_URL, DATABASE_URL and NATS_URL each replace an embedded server.
 *
 * If mocha is killed, its servers end, and the next run deletes their folders.
 */
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import {
  buildDatabaseUrl,
  buildRoleUrls,
  type DatabaseUrls,
  restrictConnections,
} from "../../deploy/local/servers/database-roles.ts";
import { type ExternalServers, type Servers, startServers } from "../../deploy/local/servers/servers.ts";
import { removeLocalRoot } from "../../deploy/local/setup/local-root.ts";
import { findLockHolder } from "../../deploy/local/setup/processes.mjs";
import { createProgress } from "../../deploy/local/setup/progress.ts";
import { type LocalStack, type StackOptions, startStack } from "../../deploy/local/stack/stack.ts";
import { createClient } from "../../shared/postgres/client.ts";
import { findFreePorts } from "./free-ports.ts";
import { autoStop, mochaHooks, releaseLater, releaseResources } from "./resources.ts";

export { mochaHooks };

/** A test's own database on the shared Postgres, with the roles. */
export interface TestDatabase {
  name: string;
  urls: DatabaseUrls;
  /** Drops the database if the server is external. */
  drop(): Promise<void>;
}

export interface TestStackOptions {
  /** Settings of individual services. They override all other settings. */
  serviceEnv?: StackOptions["serviceEnv"];
  /** URLs of external servers; default: from the environment. */
  externalUrls?: ExternalServers;
  /** The stack's folder; by default, a new folder. */
  root?: string;
  /** If true, ended processes are restarted, as with `npm start`. */
  shouldRestart?: boolean;
  /** Receives log lines of the supervisor; default: standard error. */
  log?: (line: string) => void;
}

/** State that all tests of a process share. */
interface SharedState {
  servers?: Promise<Servers> | undefined;
  /** Superuser connection to the shared Postgres. */
  adminClient?: Promise<pg.Client> | undefined;
  /** If true, new Postgres servers neither sync to disk nor run autovacuum. */
  isPostgresEphemeral: boolean;
  /** Functions that stop servers and delete folders and databases, oldest first. */
  cleanups: Set<() => Promise<void>>;
}

// Mocha can load this file twice, by require and by import. So the state is global instead of a module variable.
const STATE_KEY: unique symbol = Symbol.for("clinic-service.test-servers");
const globalState = globalThis as { [STATE_KEY]?: SharedState };
if (!globalState[STATE_KEY]) {
  globalState[STATE_KEY] = { isPostgresEphemeral: false, cleanups: new Set() };
  exitWithParent();
}
const sharedState = globalState[STATE_KEY];

const PREFIX = "clinic-test-";

/** Time limit for the process to end after the last test. Milliseconds. */
const TEARDOWN_TIMEOUT_MS = 90_000;
const progress = createProgress((line) => process.stderr.write(`${line}\n`), false);

/** Returns the servers that all tests of this process share. A test must not stop them; see `startTestServers`. */
export function getTestServers(): Promise<Servers> {
  // A failed start fails only its own test.
  sharedState.servers ??= startProcessServers().catch((error) => {
    sharedState.servers = undefined;
    throw error;
  });
  return sharedState.servers;
}

/** Kills this process if its parent process ends. Mocha's main process, which started this one, can be killed. */
function exitWithParent(): void {
  const parentPid = process.ppid;
  setInterval(() => {
    if (process.ppid !== parentPid) process.kill(process.pid, "SIGKILL");
  }, 500).unref();
}

/** Starts separate servers for one test. Their folder is deleted when they stop. */
export async function startTestServers(externalUrls?: ExternalServers): Promise<Servers> {
  return autoStop(startProcessServers(externalUrls));
}

async function startProcessServers(externalUrls: ExternalServers = process.env): Promise<Servers> {
  const root = makeTestRoot();
  const ports = await findFreePorts();
  const { isPostgresEphemeral } = sharedState;
  const servers = await startServers({ root, ports, externalUrls, progress, isPostgresEphemeral });
  const stop = registerCleanup(async () => {
    await servers.stop();
    removeLocalRoot(root);
  });
  return { ...servers, stop };
}

/**
 * Creates a database on the shared Postgres, so that test files do not see each other's rows.
 *
 * @param template database to copy; by default, the new database is empty
 */
export async function createTestDatabase(template?: string): Promise<TestDatabase> {
  const { adminDatabaseUrl, components, root } = await getTestServers();
  const name = `test_${process.pid}_${randomBytes(4).toString("hex")}`;
  const passwords = root.secrets.postgres;
  const { isExternal } = components.postgres;
  sharedState.adminClient ??= connectAsAdmin(adminDatabaseUrl);
  const admin = await sharedState.adminClient;
  await createDatabase(admin, name, {
    owner: isExternal ? undefined : "local_projection",
    template,
    strategy: isExternal ? "wal_log" : "file_copy",
  });
  const ownerUrl = isExternal
    ? buildDatabaseUrl(adminDatabaseUrl, name)
    : buildDatabaseUrl(adminDatabaseUrl, name, "local_projection", passwords.projection);
  // The embedded server's data folder is deleted with its databases. Dropping each of them would cost a checkpoint, and
  // some file systems create files slowly after many files were deleted.
  const drop = isExternal ? registerCleanup(() => dropDatabase(admin, name)) : async () => undefined;
  return { name, urls: buildRoleUrls(adminDatabaseUrl, name, passwords, ownerUrl), drop };
}

/**
 * Connects as superuser. Databases share one connection, because a new connection costs more than copying a database.
 */
async function connectAsAdmin(adminUrl: string): Promise<pg.Client> {
  const client = createClient(adminUrl, { connectionTimeoutMillis: 60_000 });
  client.on("error", () => undefined); // the next query reports that the connection is broken
  await client.connect();
  registerCleanup(() => client.end());
  return client;
}

/**
 * Creates a database.
 *
 * @param options.owner default: the superuser
 * @param options.template database to copy; default: an empty database
 * @param options.strategy how Postgres copies. `file_copy` takes a fifth of the CPU time if nothing is synced to disk,
 *   but runs two checkpoints
 */
async function createDatabase(
  admin: pg.Client,
  databaseName: string,
  options: { owner: string | undefined; template: string | undefined; strategy: "file_copy" | "wal_log" },
): Promise<void> {
  const name = pg.escapeIdentifier(databaseName);
  const ownerClause = options.owner ? `OWNER ${pg.escapeIdentifier(options.owner)}` : "";
  const template = pg.escapeIdentifier(options.template ?? "template1");
  await admin.query(`CREATE DATABASE ${name} ${ownerClause} TEMPLATE ${template} STRATEGY ${options.strategy}`);
  await restrictConnections(admin, name);
}

/** Time in which closing connections can end before their database is dropped. Milliseconds. */
const CLOSE_TIMEOUT_MS = 500;

/**
 * Drops a database. First waits for closing connections, because a pool's `end()` does not wait for them. If the server
 * ended such a connection, an uncaught error would fail the test.
 */
async function dropDatabase(admin: pg.Client, databaseName: string): Promise<void> {
  const deadline = performance.now() + CLOSE_TIMEOUT_MS;
  const isInUse = async () =>
    (await admin.query("SELECT FROM pg_stat_activity WHERE datname = $1 LIMIT 1", [databaseName])).rowCount !== 0;
  while (performance.now() < deadline && (await isInUse())) await delay(10);
  await admin.query(`DROP DATABASE IF EXISTS ${pg.escapeIdentifier(databaseName)} WITH (FORCE)`);
}

/** Starts a complete stack with its own servers. Its folder is deleted when the stack stops. */
export async function startTestStack(options: TestStackOptions = {}): Promise<LocalStack> {
  const root = options.root ?? makeTestRoot();
  const externalUrls = options.externalUrls ?? process.env;
  const stack = await startStack({
    root,
    ports: await findFreePorts(),
    env: process.env,
    externalUrls: {
      ...externalUrls,
      DATABASE_URL: externalUrls.DATABASE_URL && (await createTestDatabase()).urls.projection,
    },
    progress: options.log ? createProgress(options.log, false) : progress,
    isPostgresEphemeral: sharedState.isPostgresEphemeral,
    shouldRestart: options.shouldRestart ?? false,
    ...(options.serviceEnv ? { serviceEnv: options.serviceEnv } : {}),
  });
  const stop = registerCleanup(async () => {
    await stack.stop();
    removeLocalRoot(root);
  });
  return { ...stack, stop: releaseLater(stop) };
}

/** Creates an empty folder that the Postgres user can read. The folder is deleted after the last test. */
export function makeTestRoot(): string {
  removeAbandonedFolders();
  const root = fs.mkdtempSync(path.join(os.tmpdir(), `${PREFIX}${process.pid}-`));
  fs.chmodSync(root, 0o755);
  registerCleanup(async () => removeLocalRoot(root));
  return root;
}

/**
 * Mocha calls this hook before the first test. Makes Postgres servers fast but not durable: tests do not crash the
 * machine, and their databases are too small for autovacuum. Benchmarks do not call the hook.
 */
export function mochaGlobalSetup(): void {
  sharedState.isPostgresEphemeral = true;
}

/** Mocha calls this hook after the last test. Stops servers and deletes folders of tests. */
export async function mochaGlobalTeardown(): Promise<void> {
  exitAfter(TEARDOWN_TIMEOUT_MS);
  const failures: unknown[] = [];
  await releaseResources().catch((error) => failures.push(error));
  for (const cleanup of [...sharedState.cleanups].reverse()) await cleanup().catch((error) => failures.push(error));
  sharedState.servers = undefined;
  if (failures.length > 0) throw new AggregateError(failures, "servers or folders of tests could not be removed");
}

/** Ends the process after the time limit, because an open handle of a failed test would keep it running. */
function exitAfter(milliseconds: number): void {
  setTimeout(() => {
    process.stderr.write(`still open after all tests: ${process.getActiveResourcesInfo().join(", ")}\n`);
    process.exit(1);
  }, milliseconds).unref();
}

/**
 * Registers a cleanup function, which runs once, after all tests or earlier.
 *
 * @returns a function that runs the cleanup now
 */
function registerCleanup(cleanup: () => Promise<void>): () => Promise<void> {
  const runOnce = async () => {
    if (sharedState.cleanups.delete(runOnce)) await cleanup();
  };
  sharedState.cleanups.add(runOnce);
  return runOnce;
}

/** Deletes the folders of killed test processes. Other processes may delete them at the same time. */
function removeAbandonedFolders(): void {
  const names = fs.readdirSync(os.tmpdir()).filter((name) => name.startsWith(PREFIX));
  for (const name of names) {
    const pid = Number(name.slice(PREFIX.length).split("-")[0]);
    const folder = path.join(os.tmpdir(), name);
    const isOwnFolder = fs.statSync(folder, { throwIfNoEntry: false })?.uid === process.getuid?.();
    if (!isOwnFolder || isAlive(pid) || findLockHolder(path.join(folder, "lock"))) continue;
    try {
      removeLocalRoot(folder);
    } catch (error) {
      process.stderr.write(`${folder} could not be deleted: ${error}\n`);
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
