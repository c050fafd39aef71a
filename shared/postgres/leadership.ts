import type pg from "pg";
import { onAbort } from "../runtime/abort.ts";
import { createNotifier, pause } from "../runtime/backoff.ts";
import type { Logger } from "../runtime/logger.ts";
import { retry } from "../runtime/work.ts";
import type { DatabaseClient } from "./client.ts";
import { createLongLivedClient } from "./long-lived-connection.ts";

export const STANDBY_DETAIL = "another process leads";

/** Obstacle: reason of the caller why this process must not lead. */
export interface LeadershipOptions<Obstacle extends string = never> {
  databaseUrl: string;
  logger: Logger;
  /** A database has at most one leader for each name. */
  name: string;
  signal: AbortSignal;
  onStandby(reason: Obstacle | typeof STANDBY_DETAIL | "waits for the database"): void;
  /**
   * Returns the reason why this process must not lead, or null if it may lead. Called every second, both on standby and
   * while leading.
   */
  findObstacle?(connection: pg.ClientBase): Promise<Obstacle | null>;
  standbyIntervalMs?: number;
}

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
export async function withLeadership<Obstacle extends string = never>(
  options: LeadershipOptions<Obstacle>,
  run: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { signal, logger, name } = options;
  const report = (error: unknown) => {
    if (error !== null) options.onStandby("waits for the database");
  };
  const loop = { name: `leadership of ${name}`, logger, signal, report };
  while (!signal.aborted) {
    // Fails only if the signal aborts.
    const leader = await retry(
      loop,
      () => becomeLeader(options),
      () => true,
    ).catch(() => undefined);
    if (!leader) return;
    const { connection, term, removeListener } = leader;
    try {
      logger.info({ name }, "This process leads.");
      await Promise.all([checkUntilLost(connection, options, term), lead(run, term)]);
    } finally {
      removeListener();
      await releaseLock(connection, options);
      await closeConnection(connection, logger);
    }
  }
}

async function becomeLeader<Obstacle extends string>(options: LeadershipOptions<Obstacle>) {
  const { databaseUrl, name, logger, signal } = options;
  const connection = createLongLivedClient({ databaseUrl, applicationName: `leader ${name}`, logger });
  const term = new AbortController();
  const endTerm = () => term.abort();
  const removeListener = onAbort(signal, endTerm);
  try {
    await connection.connect();
    connection.on("error", endTerm).on("end", endTerm);
    if (!(await acquireLock(connection, options, term))) throw new Error("The connection to the database was lost.");
    return { connection, term, removeListener };
  } catch (error) {
    removeListener();
    await closeConnection(connection, logger);
    throw error;
  }
}

/** Waits until this process holds the lock. @returns false if the connection broke or the signal aborted first */
async function acquireLock<Obstacle extends string>(
  connection: pg.Client,
  options: LeadershipOptions<Obstacle>,
  term: AbortController,
): Promise<boolean> {
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
  options: Pick<LeadershipOptions<string>, "findObstacle">,
  term: AbortController,
): Promise<void> {
  while (!term.signal.aborted) {
    await pause(CHECK_INTERVAL_MS, term.signal);
    if (term.signal.aborted) return;
    await queryOrEndTerm(term, () => connection.requireServerKind());
    if (await queryOrEndTerm(term, () => options.findObstacle?.(connection))) term.abort();
  }
}

/** Takes an advisory lock of the session. @returns false if another session holds the lock */
export async function tryLock(connection: pg.ClientBase, name: string): Promise<boolean> {
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

async function releaseLock(
  connection: pg.Client,
  { name, logger }: Pick<LeadershipOptions, "name" | "logger">,
): Promise<void> {
  await connection
    .query("SELECT pg_advisory_unlock(hashtextextended($1, 0)), pg_notify($2, $1)", [name, RELEASE_CHANNEL])
    .catch((error: unknown) => logger.debug({ error, name }, "The leader could not notify the standby processes."));
}

async function closeConnection(connection: pg.Client, logger: Logger): Promise<void> {
  await connection
    .end()
    .catch((error: unknown) => logger.debug({ error }, "The connection of the leader was already closed."));
}
