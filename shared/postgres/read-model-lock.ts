import { hostname } from "node:os";
import pg from "pg";
import { onAbort } from "../runtime/abort.ts";
import { pause } from "../runtime/backoff.ts";
import type { Logger } from "../runtime/logger.ts";
import { StartError } from "../runtime/run-service.ts";
import { settlesWithin } from "../runtime/timeout.ts";
import { createLongLivedClient, type DatabaseClient } from "./client.ts";
import { requireOwnSession } from "./own-session.ts";

export interface ReadModelLockOptions {
  /** Value of DATABASE_URL. */
  databaseUrl: string;
  /** Schema of the read models that the process uses. */
  schema: string;
  /** Service of the process, for the operator whose `prune` is refused. */
  service: string;
  /** Further description of the process, such as its roles. */
  detail?: string;
  logger: Logger;
}

/** A lock on the read models that a process uses. */
export interface ReadModelLock {
  /** Resolves if the read models do not exist while the lock is held, for example because they were dropped before. */
  missing: Promise<void>;
  /** Resolves with the reason if the lock can never be held. */
  failure: Promise<StartError>;
  release(): Promise<void>;
}

/** Interval at which the lock's connection is checked or opened again. Milliseconds. */
const CHECK_INTERVAL_MS = 1_000;

/** Time limit for closing the connection. Milliseconds. */
const CLOSE_TIMEOUT_MS = 1_000;

/** Time limit for one try to take the lock. Milliseconds. */
const LOCK_TIMEOUT_MS = 1_000;

/** SQLSTATE: a lock was not available in time. */
const LOCK_NOT_AVAILABLE = "55P03";

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
  const controller = new AbortController();
  let holdPromise: Promise<StartError | undefined> | undefined;
  const missing = new Promise<void>((resolve) => {
    holdPromise = holdUntilAborted(options, controller.signal, resolve);
  });
  const failure = new Promise<StartError>((resolve) => {
    holdPromise?.then((reason) => reason && resolve(reason));
  });
  return {
    missing,
    failure,
    async release() {
      controller.abort();
      await holdPromise;
    },
  };
}

/**
 * @param onMissing called if the read models do not exist
 * @returns the reason if the lock can never be held
 */
async function holdUntilAborted(
  options: ReadModelLockOptions,
  signal: AbortSignal,
  onMissing: () => void,
): Promise<StartError | undefined> {
  const { logger, schema } = options;
  let isLossLogged = false;
  const onHeld = () => {
    isLossLogged = false;
  };
  while (!signal.aborted) {
    try {
      await holdOnConnection(options, signal, { onHeld, onMissing });
    } catch (error) {
      if (error instanceof StartError) return error;
      if (!signal.aborted && !isLossLogged)
        logger.warn({ error, schema }, "The lock on the read models is not held. It will be retried.");
      isLossLogged = true;
    }
    await pause(CHECK_INTERVAL_MS, signal);
  }
  return undefined;
}

/**
 * Holds the lock on one connection, until the signal aborts.
 *
 * @throws {StartError} if the connection shares its session with other connections
 * @throws if the connection is lost or unsuitable
 */
async function holdOnConnection(
  options: ReadModelLockOptions,
  signal: AbortSignal,
  { onHeld, onMissing }: { onHeld(): void; onMissing(): void },
): Promise<void> {
  const { schema } = options;
  const connection = createConnection(options);
  // A server that does not respond frees the lock when it notices that the connection has ended.
  const close = () => settlesWithin(connection.end(), CLOSE_TIMEOUT_MS).catch(() => false);
  const removeListener = onAbort(signal, close);
  try {
    await connection.connect();
    await requireOwnSession(connection, () => createConnection(options).connect());
    // With TCP keepalives, Postgres frees the lock within seconds if the machine of this process is down.
    await connection.query(
      `SET tcp_keepalives_idle = 3; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 2;
       SET lock_timeout = ${LOCK_TIMEOUT_MS}`,
    );
    while (!signal.aborted && !(await tryLock(connection, schema)));
    onHeld();
    while (!signal.aborted) {
      await connection.requireServerKind();
      if (!(await hasReadModels(connection, schema))) onMissing();
      await pause(CHECK_INTERVAL_MS, signal);
    }
  } finally {
    removeListener();
    await close();
  }
}

function createConnection({ databaseUrl, logger, service, detail = "" }: ReadModelLockOptions): DatabaseClient {
  const applicationName = `${service} ${hostname()}:${process.pid} ${detail}`.trim();
  return createLongLivedClient({ databaseUrl, applicationName, logger });
}

/** Waits for the lock. `prune` notices a process that waits, but not one that only tries. @returns false after a while */
async function tryLock(connection: DatabaseClient, schema: string): Promise<boolean> {
  try {
    await connection.query("SELECT pg_advisory_lock_shared(hashtextextended($1, 0))", [getReadModelLockName(schema)]);
    return true;
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE) return false;
    throw error;
  }
}

/** Reads the catalog, which needs no rights on the schema. */
async function hasReadModels(connection: DatabaseClient, schema: string): Promise<boolean> {
  const { rowCount } = await connection.query(
    `SELECT FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND relname = 'checkpoint'`,
    [schema],
  );
  return rowCount === 1;
}
