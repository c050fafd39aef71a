import type pg from "pg";
import type { DatabaseClient } from "../../shared/postgres/client.ts";
import { createLongLivedClient } from "../../shared/postgres/long-lived-connection.ts";
import { onAbort } from "../../shared/runtime/abort.ts";
import { createBackoff, createNotifier, pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import type { Detail, RoleDeps } from "./role.ts";

export interface LeadershipOptions extends Pick<RoleDeps, "databaseUrl" | "logger"> {
  /** A database has at most one leader for each name. */
  name: string;
  signal: AbortSignal;
  onStandby(reason: Detail): void;
  /**
   * Returns the reason why this process must not lead, or null if it may lead. Called every second, both on standby and
   * while leading.
   */
  findObstacle?(connection: pg.ClientBase): Promise<Detail | null>;
  standbyIntervalMs?: number;
}

export const STANDBY_DETAIL = "another process leads" satisfies Detail;

/** Interval at which a standby process tries to take the lock, and a leader checks its connection. */
const CHECK_INTERVAL_MS = 1_000;

/** Postgres channel on which a leader that gives up its lock notifies the standby processes. */
const RELEASE_CHANNEL = "leader_lock_released";

/**
 * Runs work in only one process at a time. This process is the leader. The leader holds an advisory lock, which
 * Postgres frees when the leader's connection ends. Other processes stand by and take over when the lock is free. A
 * leader that stops notifies them, so that they take over at once instead of at their next check. If a leader loses its
 * connection, the leader's signal aborts and the process stands by. The lock only avoids duplicate work. Two processes
 * cannot both write, because each write checks the checkpoint.
 *
 * @param run work of the leader, which must end when the given signal aborts. Errors before the abort are rethrown
 */
export async function withLeadership(
  options: LeadershipOptions,
  run: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { signal, logger, name } = options;
  const backoff = createBackoff({ firstMs: 200, maxMs: 3_000 });
  while (!signal.aborted) {
    const connection = await connect(options);
    if (!connection) {
      options.onStandby("waits for the database");
      await backoff.pause(signal);
      continue;
    }
    const term = new AbortController();
    const endTerm = () => term.abort();
    connection.on("error", endTerm).on("end", endTerm);
    const removeListener = onAbort(signal, endTerm);
    let hasLock = false;
    try {
      hasLock = await acquireLock(connection, options, term);
      if (hasLock) {
        backoff.reset();
        logger.info({ name }, "This process leads.");
        await Promise.all([checkUntilLost(connection, options, term), lead(run, term)]);
      }
    } finally {
      removeListener();
      if (hasLock) await releaseLock(connection, options);
      await closeConnection(connection, logger);
    }
    if (!hasLock) await backoff.pause(signal);
  }
}

async function connect(options: LeadershipOptions): Promise<DatabaseClient | undefined> {
  let connection: DatabaseClient | undefined;
  try {
    const { databaseUrl, name, logger } = options;
    connection = createLongLivedClient({ databaseUrl, applicationName: `leader ${name}`, logger });
    await connection.connect();
    return connection;
  } catch (error) {
    options.logger.warn({ error, name: options.name }, "Cannot connect to the database to become leader.");
    if (connection) await closeConnection(connection, options.logger);
    return undefined;
  }
}

/** Waits until this process holds the lock. @returns false if the connection broke or the signal aborted first */
async function acquireLock(connection: pg.Client, options: LeadershipOptions, term: AbortController): Promise<boolean> {
  const { standbyIntervalMs = CHECK_INTERVAL_MS } = options;
  const notifier = createNotifier();
  connection.on("notification", ({ payload }) => payload === options.name && notifier.wake());
  await queryOrEndTerm(term, () => connection.query(`LISTEN ${RELEASE_CHANNEL}`));
  while (!term.signal.aborted) {
    const obstacle = await queryOrEndTerm(term, () => options.findObstacle?.(connection));
    if (term.signal.aborted) return false;
    if (!obstacle && (await queryOrEndTerm(term, () => tryLock(connection, options.name)))) return true;
    options.onStandby(obstacle ?? STANDBY_DETAIL);
    await notifier.sleep(standbyIntervalMs, term.signal);
  }
  return false;
}

/**
 * Checks every second that the connection works, that its server still accepts what the service needs, and that
 * `findObstacle` finds nothing. If a check fails, aborts `term`.
 */
async function checkUntilLost(
  connection: DatabaseClient,
  options: LeadershipOptions,
  term: AbortController,
): Promise<void> {
  while (!term.signal.aborted) {
    await pause(CHECK_INTERVAL_MS, term.signal);
    if (term.signal.aborted) return;
    await queryOrEndTerm(term, () => connection.requireServerKind());
    if (await queryOrEndTerm(term, () => options.findObstacle?.(connection))) term.abort();
  }
}

async function tryLock(connection: pg.Client, name: string): Promise<boolean> {
  const { rows } = await connection.query<{ held: boolean }>(
    "SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS held",
    [name],
  );
  return rows[0]?.held === true;
}

async function queryOrEndTerm<Result>(
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

async function releaseLock(connection: pg.Client, { name, logger }: LeadershipOptions): Promise<void> {
  await connection
    .query("SELECT pg_advisory_unlock(hashtextextended($1, 0)), pg_notify($2, $1)", [name, RELEASE_CHANNEL])
    .catch((error: unknown) => logger.debug({ error, name }, "The leader could not notify the standby processes."));
}

async function closeConnection(connection: pg.Client, logger: Logger): Promise<void> {
  await connection
    .end()
    .catch((error: unknown) => logger.debug({ error }, "The connection of the leader was already closed."));
}
