import pg from "pg";
import type { Logger } from "../runtime/logger.ts";

export interface PoolOptions {
  url: string;
  applicationName: string;
  size: number;
  /** The server gives up on a statement after this. Milliseconds. */
  statementTimeout: number;
  /**
   * Use an index wherever there is one. A prepared statement that was planned while its table was small would otherwise
   * read the whole table each time, until Postgres analyzes it again.
   */
  preferIndexes?: boolean;
  logger: Logger;
}

/** A connection is had within this, or the database counts as unavailable. Milliseconds. */
const CONNECT_TIMEOUT_MS = 1_500;

/** The client waits this much longer than the server, for a server that no longer answers at all. Milliseconds. */
const CLIENT_GRACE_MS = 500;

/** Dates and times stay the text that Postgres sends: exact, and quicker than `Date`. Numbers become numbers. */
const typeParsers = new pg.TypeOverrides();
const { builtins } = pg.types;
for (const type of [builtins.DATE, builtins.TIME, builtins.TIMESTAMP, builtins.TIMESTAMPTZ]) {
  typeParsers.setTypeParser(type, (text) => text);
}
for (const type of [builtins.NUMERIC, builtins.FLOAT8]) typeParsers.setTypeParser(type, Number);
typeParsers.setTypeParser(builtins.INT8, BigInt);

/** A pool of connections to Postgres. It connects when first used, and again by itself when the server comes back. */
export function createPool(options: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: options.url,
    application_name: options.applicationName,
    max: options.size,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idleTimeoutMillis: 30_000,
    statement_timeout: options.statementTimeout,
    query_timeout: options.statementTimeout + CLIENT_GRACE_MS,
    keepAlive: true,
    ...(options.preferIndexes ? { options: "-c enable_seqscan=off" } : {}),
    types: typeParsers,
  });
  // A connection may break while it is idle, or taken but between two queries. The pool drops it, and the next query
  // on it fails; without a listener on each the process would end.
  pool.on("connect", (connection) => {
    connection.on("error", (error) => options.logger.warn({ error }, "postgres connection lost"));
  });
  // What the pool says of its idle connections has been logged by the connection itself.
  pool.on("error", () => undefined);
  return pool;
}

/**
 * Opens a connection with the settings of a pool, but without time limits: neither the server nor the client gives up on
 * a statement. The caller closes it, with {@link closeConnection}.
 */
export async function connectWithoutTimeouts(pool: pg.Pool): Promise<pg.Client> {
  const connection = new pg.Client({ ...pool.options, statement_timeout: 0, query_timeout: 0 });
  // A broken connection fails its next query. Without a listener it would end the process.
  connection.on("error", () => undefined);
  await connection.connect();
  await connection.query("SET statement_timeout = 0");
  return connection;
}

/** Closes a connection, which ends its transaction and frees its locks. */
export async function closeConnection(connection: pg.Client): Promise<void> {
  await connection.end().catch(() => undefined);
}
