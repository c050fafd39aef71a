import pg from "pg";
import type { Logger } from "../runtime/logger.ts";

export interface PoolOptions {
  url: string;
  applicationName: string;
  size: number;
  /** Time limit for a statement on the server. Milliseconds. */
  statementTimeout: number;
  /**
   * If true, Postgres uses an index wherever possible. Otherwise a prepared statement that was planned for a small table
   * reads the whole table each time, until Postgres analyzes it again.
   */
  preferIndexes?: boolean;
  logger: Logger;
}

/** Without a connection after this time, the database counts as unavailable. Milliseconds. */
const CONNECT_TIMEOUT_MS = 1_500;

/** Extra time limit of the client, for a server that does not answer at all. Milliseconds. */
const CLIENT_GRACE_MS = 500;

/** Dates and times stay texts, which is exact and faster than `Date`. Numbers become numbers. */
const typeParsers = new pg.TypeOverrides();
const { builtins } = pg.types;
for (const type of [builtins.DATE, builtins.TIME, builtins.TIMESTAMP, builtins.TIMESTAMPTZ]) {
  typeParsers.setTypeParser(type, (text) => text);
}
for (const type of [builtins.NUMERIC, builtins.FLOAT8]) typeParsers.setTypeParser(type, Number);
typeParsers.setTypeParser(builtins.INT8, BigInt);

/** Creates a pool of connections to Postgres. It connects when it is first used, and again when the server is back. */
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
  // A connection can break between two queries. Then its next query fails, and the pool drops it. Without a listener on
  // each connection, the error would end the process.
  pool.on("connect", (connection) => {
    connection.on("error", (error) => options.logger.warn({ error }, "A connection to Postgres was lost."));
  });
  // The connection itself has already logged the error.
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
  // A connection that cannot be closed is already broken, and the server has freed everything.
  await connection.end().catch(() => undefined);
}
