/**
 * Real servers for tests: one shared set for each mocha process, started on first use, and whole stacks for fault
 * tests. EVENTSTORE_URL, DATABASE_URL and NATS_URL each replace a server of ours. Nothing outlives mocha, even when
 * it is killed: the servers die with the process, and the next run sweeps the folder.
 */
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {
  buildDatabaseUrl,
  buildRoleUrls,
  createDatabase,
  type DatabaseUrls,
  dropDatabase,
} from "../../deploy/local/servers/database-roles.ts";
import type { ExternalServers } from "../../deploy/local/servers/external-servers.ts";
import { type Servers, startServers } from "../../deploy/local/servers/servers.ts";
import { removeLocalRoot } from "../../deploy/local/setup/local-root.ts";
import { findLockHolder } from "../../deploy/local/setup/pid-lock.mjs";
import { findFreePorts } from "../../deploy/local/setup/ports.ts";
import { createProgress } from "../../deploy/local/setup/progress.ts";
import { type Stack, type StackOptions, startStack } from "../../deploy/local/stack/stack.ts";

/** A database of a test's own on the shared Postgres, empty: its roles are there, its migrations are not applied. */
export interface TestDatabase {
  name: string;
  urls: DatabaseUrls;
  drop(): Promise<void>;
}

export interface TestStackOptions {
  /** Settings of one service, over all others. */
  serviceEnv?: StackOptions["serviceEnv"];
  /** Servers that run elsewhere; by default those of the environment. */
  external?: ExternalServers;
  /** The stack's folder; by default a new one. */
  root?: string;
  /** If true, processes that die are restarted, as with `npm start`. */
  restart?: boolean;
  /** Takes the supervisor's lines; by default they go to standard error. */
  log?: (line: string) => void;
}

interface Shared {
  servers?: Promise<Servers> | undefined;
  /** Cleanup functions of everything that still runs or exists, newest last. */
  cleanups: Set<() => Promise<void>>;
}

// Mocha may load this file once by require and once by import: the state is the process's, not the module's.
const KEY: unique symbol = Symbol.for("clinic-service.test-servers");
const perProcess = globalThis as { [KEY]?: Shared };
if (!perProcess[KEY]) {
  perProcess[KEY] = { cleanups: new Set() };
  exitWithParent();
}
const shared = perProcess[KEY];

const PREFIX = "clinic-test-";

/** After the last test, everything must have come to its end within this. Milliseconds. */
const TEARDOWN_TIMEOUT_MS = 90_000;
const progress = createProgress((line) => process.stderr.write(`${line}\n`), false);

/**
 * The servers that all tests of this process share. Tests that stop a server start their own, with startTestServers.
 */
export function testServers(): Promise<Servers> {
  shared.servers ??= startTestServers();
  return shared.servers;
}

/** Mocha runs the tests in a child process. If the parent is killed with -9, the child must end too. */
function exitWithParent(): void {
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) process.kill(process.pid, "SIGKILL");
  }, 500).unref();
}

/** Servers of a test's own, on free ports, in a folder that goes when they stop. */
export async function startTestServers(external: ExternalServers = process.env): Promise<Servers> {
  const root = makeTestRoot();
  const ports = await findFreePorts();
  const servers = await startServers({ root, ports, external, progress, syncNewData: false });
  const stop = registerCleanup(async () => {
    await servers.stop();
    removeLocalRoot(root);
  });
  return { ...servers, stop };
}

/** A new, empty database on the shared Postgres, so that test files do not see each other's rows. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const { adminDatabaseUrl, components, root } = await testServers();
  const name = `test_${process.pid}_${randomBytes(4).toString("hex")}`;
  const passwords = root.secrets.postgres;
  const { isExternal } = components.postgres;
  await createDatabase(adminDatabaseUrl, name, isExternal ? undefined : "local_projection");
  const owner = isExternal
    ? buildDatabaseUrl(adminDatabaseUrl, name)
    : buildDatabaseUrl(adminDatabaseUrl, name, "local_projection", passwords.projection);
  const drop = () => dropDatabase(adminDatabaseUrl, name);
  // On a server of ours, the database goes with the server.
  return {
    name,
    urls: buildRoleUrls(adminDatabaseUrl, name, passwords, owner),
    drop: isExternal ? registerCleanup(drop) : drop,
  };
}

/** Starts a complete stack with its own servers. Its folder is deleted when it stops. */
export async function startTestStack(options: TestStackOptions = {}): Promise<Stack> {
  const root = options.root ?? makeTestRoot();
  const external = options.external ?? process.env;
  const stack = await startStack({
    root,
    ports: "free",
    env: process.env,
    external: {
      ...external,
      DATABASE_URL: external.DATABASE_URL && (await createTestDatabase()).urls.projection,
    },
    progress: options.log ? createProgress(options.log, false) : progress,
    syncNewData: false,
    restart: options.restart ?? false,
    ...(options.serviceEnv ? { serviceEnv: options.serviceEnv } : {}),
  });
  const stop = registerCleanup(async () => {
    await stack.stop();
    removeLocalRoot(root);
  });
  return { ...stack, stop };
}

/** An empty folder for a stack, reachable for root's Postgres user, removed at the end at the latest. */
export function makeTestRoot(): string {
  removeAbandonedFolders();
  const root = fs.mkdtempSync(path.join(os.tmpdir(), `${PREFIX}${process.pid}-`));
  fs.chmodSync(root, 0o755);
  registerCleanup(async () => removeLocalRoot(root));
  return root;
}

/** Hooks for mocha: stop and remove everything that tests left behind. */
export async function mochaGlobalTeardown(): Promise<void> {
  exitAfter(TEARDOWN_TIMEOUT_MS);
  const failures: unknown[] = [];
  for (const clean of [...shared.cleanups].reverse()) await clean().catch((error) => failures.push(error));
  shared.servers = undefined;
  if (failures.length > 0) throw new AggregateError(failures, "what tests left could not all be stopped");
}

/** A test that failed may have left something open, for which mocha would wait for ever. */
function exitAfter(milliseconds: number): void {
  setTimeout(() => {
    process.stderr.write(`still open after all tests: ${process.getActiveResourcesInfo().join(", ")}\n`);
    process.exit(1);
  }, milliseconds).unref();
}

/** Makes the work happen once: when called, or at the end. */
function registerCleanup(work: () => Promise<void>): () => Promise<void> {
  const once = async () => {
    if (shared.cleanups.delete(once)) await work();
  };
  shared.cleanups.add(once);
  return once;
}

/** Removes folders whose process was killed. */
function removeAbandonedFolders(): void {
  const left = fs.readdirSync(os.tmpdir()).filter((name) => name.startsWith(PREFIX));
  for (const name of left) {
    const pid = Number(name.slice(PREFIX.length).split("-")[0]);
    const folder = path.join(os.tmpdir(), name);
    const ours = fs.statSync(folder, { throwIfNoEntry: false })?.uid === process.getuid?.();
    if (ours && !isAlive(pid) && !findLockHolder(path.join(folder, "lock"))) removeLocalRoot(folder);
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
