import type pg from "pg";
import { onAbort } from "../runtime/abort.ts";
import { pause } from "../runtime/backoff.ts";
import type { Logger } from "../runtime/logger.ts";
import { StartError } from "../runtime/run-service.ts";
import { settlesWithin } from "../runtime/timeout.ts";
import { createClient, type DatabaseClient } from "./client.ts";
import { closeConnection } from "./pool.ts";

/** Time limit for connecting and for each statement of a long-lived connection. */
const LONG_LIVED_QUERY_TIMEOUT_MS = 3_000;

/**
 * Server settings that end a session within seconds if the client's machine is down or its process is frozen. Postgres
 * then frees the locks of the session. Connections are used every second, so they do not time out.
 */
const LOSS_DETECTION =
  "-c tcp_keepalives_idle=3 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=2 -c idle_session_timeout=10s";

export interface LongLivedClientOptions {
  databaseUrl: string;
  /** Purpose of the connection, for operators. Postgres shows the first 63 bytes. */
  applicationName: string;
  logger: Logger;
}

/**
 * Creates a client for a connection outside of a pool, for example to hold a lock. The client is not connected yet. If
 * the connection breaks, the client logs the error, and the next query fails.
 *
 * @throws {ConfigError} if a certificate file cannot be read
 */
export function createLongLivedClient(options: LongLivedClientOptions): DatabaseClient {
  const { databaseUrl, applicationName, logger } = options;
  const client = createClient(databaseUrl, {
    application_name: applicationName,
    connectionTimeoutMillis: LONG_LIVED_QUERY_TIMEOUT_MS,
    query_timeout: LONG_LIVED_QUERY_TIMEOUT_MS,
    keepAlive: true,
    options: LOSS_DETECTION,
  });
  client.on("error", (error) => logger.debug({ error, applicationName }, "A long-lived connection failed."));
  return client;
}

/** Callbacks of {@link keepConnection}. */
export interface ConnectionUse {
  /**
   * Called once for each new connection.
   *
   * @throws {StartError} if another connection would fail in the same way
   */
  prepare(connection: DatabaseClient): Promise<void>;
  /** Called every second. If it fails, the connection is replaced. */
  check(connection: DatabaseClient): Promise<void>;
  /** Called when the connection is lost, and after each failed attempt to open it. */
  onLoss?(): void;
  lossMessage: string;
}

const CHECK_INTERVAL_MS = 1_000;

/** Time limit for closing a connection. A server that does not respond notices the end later. */
const CLOSE_TIMEOUT_MS = 1_000;

/**
 * Keeps a connection open until the signal aborts. If the connection is lost, for example in a failover, opens it again.
 *
 * @throws {StartError} from `prepare`
 */
export async function keepConnection(
  options: LongLivedClientOptions,
  signal: AbortSignal,
  use: ConnectionUse,
): Promise<void> {
  let isLossLogged = false;
  const onCheck = () => {
    isLossLogged = false;
  };
  while (!signal.aborted) {
    try {
      await useConnection(options, signal, use, onCheck);
    } catch (error) {
      if (error instanceof StartError) throw error;
      if (!signal.aborted && !isLossLogged) options.logger.warn({ error }, use.lossMessage);
      isLossLogged = true;
    }
    use.onLoss?.();
    await pause(CHECK_INTERVAL_MS, signal);
  }
}

async function useConnection(
  options: LongLivedClientOptions,
  signal: AbortSignal,
  use: ConnectionUse,
  onCheck: () => void,
): Promise<void> {
  const { connection, signal: connectionSignal, close } = await openLongLivedConnection(options, signal);
  const removeListener = onAbort(signal, close);
  try {
    await use.prepare(connection);
    while (!signal.aborted) {
      await connection.requireServerKind();
      await use.check(connection);
      onCheck();
      await pause(CHECK_INTERVAL_MS, connectionSignal);
    }
  } finally {
    removeListener();
    await close();
  }
}

export interface OpenConnection {
  connection: DatabaseClient;
  /** Aborts if the connection is lost, or if the caller's signal aborts. */
  signal: AbortSignal;
  close(): Promise<void>;
}

/** Opens a long-lived connection. The caller must close it. */
export async function openLongLivedConnection(
  options: LongLivedClientOptions,
  signal: AbortSignal,
): Promise<OpenConnection> {
  const connection = createLongLivedClient(options);
  const controller = new AbortController();
  const abort = () => controller.abort();
  const removeListener = onAbort(signal, abort);
  const close = async () => {
    removeListener();
    await settlesWithin(connection.end(), CLOSE_TIMEOUT_MS).catch(() => false);
  };
  connection.on("error", abort).on("end", abort);
  const stopConnecting = onAbort(signal, close);
  try {
    await connection.connect();
    return { connection, signal: controller.signal, close };
  } catch (error) {
    await close();
    throw error;
  } finally {
    stopConnecting();
  }
}

/** Number of times that each session id is read. A few reads may not detect a session that the pooler shares. */
const SESSION_READS = 10;

/**
 * Checks that a connection always uses the same server session, because its locks belong to the session. A connection
 * pooler in transaction or statement mode shares sessions. PgBouncer does not report its mode, so the session ids of
 * two connections are compared. A direct connection needs only one query.
 *
 * @param connection open connection without a transaction
 * @param openOther opens another connection to the same database. Called only behind a pooler
 * @throws {StartError} if the connection shares its session with other connections
 */
export async function requireOwnSession(connection: pg.Client, openOther: () => Promise<pg.Client>): Promise<void> {
  // The types of pg do not declare the id that the server reported. A pooler reports an id that it invented.
  const { processID: reportedId } = connection as unknown as { processID: number | null };
  if ((await readSessionId(connection)) === reportedId) return;
  const other = await openOther();
  const [ids, otherIds] = [new Set<number>(), new Set<number>()];
  try {
    for (let read = 0; read < SESSION_READS; read += 1) {
      ids.add(await readSessionId(connection));
      otherIds.add(await readSessionId(other));
    }
  } finally {
    await closeConnection(other);
  }
  const areSeparate = ids.size === 1 && otherIds.size === 1 && !ids.has([...otherIds][0] ?? 0);
  if (!areSeparate)
    throw new StartError(
      "The connection pooler at DATABASE_URL uses transaction or statement mode, in which locks are lost. Use session mode, or connect to Postgres directly.",
    );
}

async function readSessionId(connection: pg.Client): Promise<number> {
  const { rows } = await connection.query<{ id: number }>("SELECT pg_backend_pid() AS id");
  return rows[0]?.id ?? 0;
}
