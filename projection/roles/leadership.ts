import pg from "pg";
import { createBackoff, pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import type { Detail } from "./role.ts";

export interface LeadershipOptions {
  databaseUrl: string;
  /** Name of the lock: one leader at a time for each name in a database. */
  name: string;
  logger: Logger;
  signal: AbortSignal;
  onStandby(detail: Detail): void;
  /** Returns why this process must not lead; null if it may. Called every second, on standby and while it leads. */
  hindrance?(connection: pg.ClientBase): Promise<Detail | null>;
}

/** Detail of a standby that is ready to take over. */
export const ANOTHER_LEADS = "another process leads" satisfies Detail;

/** Interval at which a standby tries the lock and a leader checks its connection. Milliseconds. */
const CHECK_INTERVAL_MS = 1_000;
const QUERY_TIMEOUT_MS = 3_000;

/**
 * Runs work in at most one process at a time: the one that holds an advisory lock, which lasts as long as its connection.
 * The others stand by and take over when the lock is free. If a leader loses its connection, its signal aborts and it
 * stands by again. The lock only avoids double work. The compare-and-set of the checkpoint keeps two from writing.
 *
 * @param run must end when its signal aborts. Errors before that are rethrown
 */
export async function withLeadership(
  options: LeadershipOptions,
  run: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { signal, logger, name } = options;
  const wait = createBackoff({ firstMs: 200, maxMs: 3_000 });
  while (!signal.aborted) {
    const connection = await connect(options);
    if (!connection) {
      options.onStandby("the database is unavailable");
      await wait.next(signal);
      continue;
    }
    const term = new AbortController();
    const end = () => term.abort();
    connection.on("error", end).on("end", end);
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    let acquired = false;
    try {
      acquired = await acquire(connection, options, term);
      if (acquired) {
        wait.reset();
        logger.info({ name }, "This process leads.");
        await Promise.all([keepChecking(connection, options, term), lead(run, term)]);
      }
    } finally {
      signal.removeEventListener("abort", end);
      await release(connection, logger);
    }
    if (!acquired) await wait.next(signal);
  }
}

/** @returns undefined if the database is unavailable */
async function connect(options: LeadershipOptions): Promise<pg.Client | undefined> {
  const connection = new pg.Client({
    connectionString: options.databaseUrl,
    application_name: `leader ${options.name}`,
    connectionTimeoutMillis: QUERY_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    keepAlive: true,
  });
  connection.on("error", (error) =>
    options.logger.debug({ error, name: options.name }, "The connection of the leader failed."),
  );
  try {
    await connection.connect();
    // With keepalives the server notices within seconds if the leader's machine is gone, and frees the lock.
    await connection.query(
      "SET tcp_keepalives_idle = 3; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 2",
    );
    return connection;
  } catch (error) {
    options.logger.warn({ error, name: options.name }, "Cannot connect to the database to become leader.");
    await release(connection, options.logger);
    return undefined;
  }
}

/** Tries the lock until it is free. @returns false if the connection broke or the signal aborted first */
async function acquire(
  connection: pg.Client,
  options: LeadershipOptions,
  term: AbortController,
): Promise<boolean> {
  while (!term.signal.aborted) {
    const hindrance = await query(term, () => options.hindrance?.(connection));
    if (term.signal.aborted) return false;
    if (!hindrance && (await query(term, () => tryLock(connection, options.name)))) return true;
    options.onStandby(hindrance ?? ANOTHER_LEADS);
    await pause(CHECK_INTERVAL_MS, term.signal);
  }
  return false;
}

async function keepChecking(
  connection: pg.Client,
  options: LeadershipOptions,
  term: AbortController,
): Promise<void> {
  while (!term.signal.aborted) {
    await pause(CHECK_INTERVAL_MS, term.signal);
    if (term.signal.aborted) return;
    await query(term, () => connection.query("SELECT"));
    if (await query(term, () => options.hindrance?.(connection))) term.abort();
  }
}

async function tryLock(connection: pg.Client, name: string): Promise<boolean> {
  const { rows } = await connection.query<{ held: boolean }>(
    "SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS held",
    [name],
  );
  return rows[0]?.held === true;
}

/** Runs a query. If it fails, the term ends. */
async function query<Result>(
  term: AbortController,
  run: () => Promise<Result> | undefined,
): Promise<Result | undefined> {
  try {
    return await run();
  } catch {
    term.abort();
    return undefined;
  }
}

async function lead(run: (signal: AbortSignal) => Promise<void>, term: AbortController): Promise<void> {
  try {
    await run(term.signal);
  } catch (error) {
    if (!term.signal.aborted) throw error;
  } finally {
    term.abort();
  }
}

/** Closes the connection, which frees the lock. */
async function release(connection: pg.Client, logger: Logger): Promise<void> {
  await connection
    .end()
    .catch((error: unknown) => logger.debug({ error }, "The connection of the leader was already closed."));
}
