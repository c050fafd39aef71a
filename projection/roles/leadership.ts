import pg from "pg";
import { backoff, pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import type { Detail } from "./role.ts";

export interface LeadershipOptions {
  databaseUrl: string;
  /** What is led: one leader at a time for each name in a database. */
  name: string;
  logger: Logger;
  signal: AbortSignal;
  onStandby(detail: Detail): void;
  /** Asked every second of a standby and of the leader: why this process must not lead; null if it may. */
  hindrance?(connection: pg.ClientBase): Promise<Detail | null>;
}

/** What a standby says that is ready to take over. */
export const ANOTHER_LEADS = "another process leads" satisfies Detail;

/** A standby asks this often whether the leader is gone, a leader whether its connection lives. Milliseconds. */
const CHECK_INTERVAL_MS = 1_000;
const QUERY_TIMEOUT_MS = 3_000;

/**
 * Runs something in at most one process at a time: whoever holds an advisory lock, for as long as the connection
 * that took it lives. The others stand by and take over when it is free. A leader that loses its connection stops
 * (its signal aborts) and stands by again. The lock keeps two from working at once; that two cannot both write is
 * the checkpoint's business.
 *
 * @param run ends when its signal aborts; what it throws before that is thrown on
 */
export async function withLeadership(
  options: LeadershipOptions,
  run: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { signal, logger, name } = options;
  const wait = backoff({ first: 200, most: 3_000 });
  while (!signal.aborted) {
    const connection = await connect(options);
    if (!connection) {
      options.onStandby("the database is out of reach");
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
        logger.info({ name }, "leads");
        await Promise.all([keepChecking(connection, options, term), lead(run, term)]);
      }
    } finally {
      signal.removeEventListener("abort", end);
      await release(connection, logger);
    }
    if (!acquired) await wait.next(signal);
  }
}

/** @returns undefined where the database is out of reach */
async function connect(options: LeadershipOptions): Promise<pg.Client | undefined> {
  const connection = new pg.Client({
    connectionString: options.databaseUrl,
    application_name: `leader ${options.name}`,
    connectionTimeoutMillis: QUERY_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    keepAlive: true,
  });
  connection.on("error", (error) =>
    options.logger.debug({ error, name: options.name }, "leader's connection"),
  );
  try {
    await connection.connect();
    // So that the server notices in seconds, too, when the leader's whole machine is gone, and gives its lock away.
    await connection.query(
      "SET tcp_keepalives_idle = 3; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 2",
    );
    return connection;
  } catch (error) {
    options.logger.warn({ error, name: options.name }, "cannot reach the database to lead");
    await release(connection, options.logger);
    return undefined;
  }
}

/** Asks for the lock until it is free; false where the connection broke or the signal aborted meanwhile. */
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

/** Asks the database. A question that is not answered ends the term. */
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

/** Closing gives the lock back; a connection that is gone already has done so. */
async function release(connection: pg.Client, logger: Logger): Promise<void> {
  await connection.end().catch((error: unknown) => logger.debug({ error }, "leader's connection was gone"));
}
