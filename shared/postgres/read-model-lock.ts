import { hostname } from "node:os";
import { isLockTimeout } from "../runtime/failures.ts";
import type { Logger } from "../runtime/logger.ts";
import type { StartError } from "../runtime/run-service.ts";
import type { DatabaseClient } from "./client.ts";
import { createLongLivedClient, keepConnection, requireOwnSession } from "./long-lived-connection.ts";

interface ReadModelLockOptions {
  databaseUrl: string;
  schema: string;
  /** Name of the service that holds the lock. It is shown to the operator whose `prune` is refused. */
  service: string;
  /** Further description of the process, such as its roles. */
  detail?: string;
  logger: Logger;
}

export interface ReadModelLock {
  /** Resolves if the lock is held, but the read models do not exist, for example because they were dropped. */
  missing: Promise<void>;
  /** Resolves with the reason if the lock can never be held, for example behind some connection poolers. */
  failure: Promise<StartError>;
  release(): Promise<void>;
}

const LOCK_TIMEOUT_MS = 1_000;

/** Returns the name of the lock that each process holds while it uses the read models of a schema. */
export function getReadModelLockName(schema: string): string {
  return `read models ${schema}`;
}

/**
 * Holds a shared lock on the read models of a schema until the lock is released. `prune` takes the lock exclusively, so it
 * drops no read models that a process uses. The lock has its own connection. If the connection is lost, for example in a
 * failover, the lock is taken again on a new connection. A process that waits for the lock is visible to `prune`.
 */
export function holdReadModelLock(options: ReadModelLockOptions): ReadModelLock {
  const { databaseUrl, schema, service, detail = "", logger } = options;
  const applicationName = `${service} ${hostname()}:${process.pid} ${detail}`.trim();
  const clientOptions = { databaseUrl, applicationName, logger };
  const controller = new AbortController();
  const { signal } = controller;
  let holdPromise: Promise<void> = Promise.resolve();
  const missing = new Promise<void>((resolve) => {
    holdPromise = keepConnection(clientOptions, signal, {
      async prepare(connection) {
        await requireOwnSession(connection, () => createLongLivedClient(clientOptions).connect());
        await connection.query(`SET lock_timeout = ${LOCK_TIMEOUT_MS}`);
        while (!signal.aborted && !(await tryLock(connection, schema)));
      },
      async check(connection) {
        if (!(await hasReadModels(connection, schema))) resolve();
      },
      lossMessage: "The lock on the read models is not held. It will be retried.",
    });
  });
  return {
    missing,
    failure: new Promise((resolve) => holdPromise.catch(resolve)),
    async release() {
      controller.abort();
      // `failure` reports the error.
      await holdPromise.catch(() => undefined);
    },
  };
}

/** Waits up to a second for the lock, so that `prune` can see the process. Returns false after a timeout. */
async function tryLock(connection: DatabaseClient, schema: string): Promise<boolean> {
  try {
    await connection.query("SELECT pg_advisory_lock_shared(hashtextextended($1, 0))", [getReadModelLockName(schema)]);
    return true;
  } catch (error) {
    if (isLockTimeout(error)) return false;
    throw error;
  }
}

/** Returns true if the schema has read models. Reads the catalog, which needs no rights on the schema. */
async function hasReadModels(connection: DatabaseClient, schema: string): Promise<boolean> {
  const { rowCount } = await connection.query(
    `SELECT FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND relname = 'checkpoint'`,
    [schema],
  );
  return rowCount === 1;
}
