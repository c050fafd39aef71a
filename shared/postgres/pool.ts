import pg from "pg";
import { isInFailedTransaction, isPostgresUnavailable } from "../runtime/failures.ts";
import type { Logger } from "../runtime/logger.ts";
import { DatabaseClient, type DatabaseServers, resolveServers } from "./client.ts";

interface PoolOptions {
  url: string;
  applicationName: string;
  size: number;
  /** Time limit for opening a connection. Default: 1.5 seconds, because a request waits for it. */
  connectTimeoutMs?: number;
  statementTimeoutMs: number;
  /** Time limit for each lock that a statement waits for. Default: the time limit of the statement. */
  lockTimeoutMs?: number;
  /**
   * If true, Postgres uses an index wherever possible, instead of sequential or bitmap scans. If false, a statement
   * that was prepared for a small table keeps scanning the whole table as it grows, until Postgres analyzes the table
   * again. A bitmap scan reads all matching rows, even if the statement needs only the first rows in index order.
   */
  shouldPreferIndexes?: boolean;
  /** If true, Postgres plans a prepared statement once per connection. If false, Postgres may plan each execution. */
  requiresGenericPlans?: boolean;
  logger: Logger;
}

/** Time limit for opening a connection of a command line. Nobody waits for a response, and the machine may be busy. */
export const COMMAND_LINE_CONNECT_TIMEOUT_MS = 10_000;

/**
 * Extra time that the client allows for a statement after the statement timeout of the server. Pipelined statements
 * share this time.
 */
const CLIENT_GRACE_MS = 500;

/**
 * Time after which Postgres ends a session that is idle in a transaction, so that a frozen process does not keep its
 * locks. Milliseconds.
 */
export const TRANSACTION_PAUSE_LIMIT_MS = 10_000;

/**
 * Turns off JIT compilation, which Postgres uses for statements with a high estimated cost. With `shouldPreferIndexes`,
 * a sequential scan has an extremely high estimate. Postgres would then compile even small statements at each
 * execution, which takes much longer than the statement.
 */
const NO_JIT = "-c jit=off";

/** Parsers for the values of result columns. Dates and times remain text, which is exact and faster than `Date`. */
const typeParsers = new pg.TypeOverrides();
const { builtins } = pg.types;
for (const type of [builtins.DATE, builtins.TIME, builtins.TIMESTAMP, builtins.TIMESTAMPTZ]) {
  typeParsers.setTypeParser(type, (text) => text);
}
for (const type of [builtins.NUMERIC, builtins.FLOAT8]) typeParsers.setTypeParser(type, Number);
typeParsers.setTypeParser(builtins.INT8, BigInt);

/**
 * Creates a pool of connections to Postgres. The pool connects at its first use, and reconnects when the server is
 * available again. Each new connection chooses a server, so after a failover the pool uses the new primary.
 *
 * @throws {ConfigError} if a certificate file of the connection string cannot be read
 */
export function createPool(options: PoolOptions): pg.Pool {
  const poolConfig: pg.PoolConfig & DatabaseServers = {
    ...resolveServers(options.url),
    // The pool passes its options to the constructor, which the type does not declare.
    Client: DatabaseClient as unknown as new () => pg.Client,
    application_name: options.applicationName,
    max: options.size,
    connectionTimeoutMillis: options.connectTimeoutMs ?? 1_500,
    // Idle connections stay open. On a busy machine, opening one can take longer than a request may.
    idleTimeoutMillis: 0,
    statement_timeout: options.statementTimeoutMs,
    query_timeout: options.statementTimeoutMs + CLIENT_GRACE_MS,
    keepAlive: true,
    // Firewalls drop connections that are idle for minutes.
    keepAliveInitialDelayMillis: 30_000,
    // A connection sends a statement without waiting for the responses to earlier statements.
    pipeline: true,
    options: [
      NO_JIT,
      `-c idle_in_transaction_session_timeout=${TRANSACTION_PAUSE_LIMIT_MS}`,
      ...(options.lockTimeoutMs === undefined ? [] : [`-c lock_timeout=${options.lockTimeoutMs}`]),
      ...(options.shouldPreferIndexes ? ["-c enable_seqscan=off -c enable_bitmapscan=off"] : []),
      ...(options.requiresGenericPlans ? ["-c plan_cache_mode=force_generic_plan"] : []),
    ].join(" "),
    types: typeParsers,
  };
  const pool = new pg.Pool(poolConfig);
  // If a connection breaks between two queries, the next query on the connection fails, and the pool drops the
  // connection.
  pool.on("connect", (connection) => {
    connection.on("error", (error) => options.logger.warn({ error }, "connection to Postgres was lost"));
  });
  // The listener of the connection has already logged the error.
  pool.on("error", () => undefined);
  return pool;
}

/**
 * Opens all connections of a pool, so that the first requests do not wait for them. Takes at most the pool's time limit
 * for a connection. Ignores failures, because later requests open missing connections.
 */
export async function openConnections(pool: pg.Pool): Promise<void> {
  const results = await Promise.allSettled(Array.from({ length: pool.options.max ?? 1 }, () => pool.connect()));
  for (const result of results) if (result.status === "fulfilled") result.value.release();
}

/**
 * Opens a connection with the settings of a pool from {@link createPool}, but without timeouts of locks, statements
 * and transactions in the server or the client. The caller must close the connection with {@link closeConnection}.
 */
export async function connectWithoutTimeouts(pool: pg.Pool): Promise<pg.Client> {
  const poolConfig = pool.options as pg.PoolOptions & DatabaseServers;
  const connection = new DatabaseClient({ ...poolConfig, statement_timeout: 0, query_timeout: 0 });
  await connection.connect();
  await connection.query(
    "SET lock_timeout = 0; SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0",
  );
  return connection;
}

/** Closes a connection. The server then rolls back an open transaction and releases the connection's locks. */
export async function closeConnection(connection: pg.Client): Promise<void> {
  // A connection that cannot be closed is already broken, and the server has released its locks.
  await connection.end().catch(() => undefined);
}

/**
 * Waits for statements that one connection sent at the same time, and returns their results.
 *
 * @throws the error of the first failed statement. In a transaction, Postgres refuses all later statements; these errors
 *   are ignored
 */
export async function awaitPipelined<Results extends readonly unknown[]>(
  promises: Results,
): Promise<{ -readonly [Index in keyof Results]: Awaited<Results[Index]> }> {
  const outcomes = await Promise.allSettled(promises);
  const errors = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
  if (errors.length > 0) throw errors.find((error) => !isInFailedTransaction(error)) ?? errors[0];
  // None is rejected, so this returns at once.
  return Promise.all(promises);
}

/**
 * Runs work in one transaction. Any error rolls the transaction back. The first statement of the work is sent together
 * with BEGIN.
 */
export async function inTransaction<T>(pool: pg.Pool, run: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let connectionError: Error | undefined;
  try {
    const [, result] = await awaitPipelined([client.query("BEGIN"), run(client)]);
    await client.query("COMMIT");
    return result;
  } catch (error) {
    if (isPostgresUnavailable(error)) connectionError = error as Error;
    // If the connection breaks, the server rolls back by itself. Errors of ROLLBACK are ignored, because they would
    // hide the original error.
    else await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  } finally {
    client.release(connectionError);
  }
}
