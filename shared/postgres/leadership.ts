import type pg from "pg";
import { runTaskGroup } from "../runtime/abort.ts";
import { createNotifier, pause } from "../runtime/backoff.ts";
import type { Logger } from "../runtime/logger.ts";
import { retry } from "../runtime/work.ts";
import { type OpenConnection, openLongLivedConnection } from "./long-lived-connection.ts";

export const STANDBY_DETAIL = "another process leads";

/** Options of {@link withLeadership}. `Obstacle` is the type of the results of `findObstacle`. */
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
 * Runs work in only one process at a time, the leader. The leader holds an advisory lock, which Postgres frees when the
 * leader's connection ends. All other processes stand by, and one takes over when the lock is free. A leader that stops
 * notifies them, so that they need not wait for their next check. If the leader loses its connection, its signal aborts
 * and it stands by. The lock only avoids duplicate work. Two processes cannot both write, because each write checks the
 * checkpoint.
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
  const runAsLeader = async (termSignal: AbortSignal) => {
    await run(termSignal).catch((error: unknown) => {
      if (!termSignal.aborted) throw error;
    });
  };
  while (!signal.aborted) {
    // Fails only if the signal aborts.
    const leader = await retry(
      loop,
      () => becomeLeader(options),
      () => true,
    ).catch(() => undefined);
    if (!leader) return;
    const { connection, signal: connectionSignal, close } = leader;
    try {
      logger.info({ name }, "This process leads.");
      await runTaskGroup(connectionSignal, [
        (termSignal) =>
          checkUntilLost(leader, options, termSignal).catch((error: unknown) =>
            logger.warn({ error, name }, "The leader failed its check, so this process stands by."),
          ),
        runAsLeader,
      ]);
    } finally {
      await connection
        .query("SELECT pg_advisory_unlock(hashtextextended($1, 0)), pg_notify($2, $1)", [name, RELEASE_CHANNEL])
        .catch((error: unknown) => logger.debug({ error, name }, "The leader could not notify the standby processes."));
      await close();
    }
  }
}

async function becomeLeader<Obstacle extends string>(options: LeadershipOptions<Obstacle>): Promise<OpenConnection> {
  const { databaseUrl, name, logger, signal } = options;
  const opened = await openLongLivedConnection({ databaseUrl, applicationName: `leader ${name}`, logger }, signal);
  try {
    await acquireLock(opened, options);
    return opened;
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/** Waits until this process holds the lock. Fails if the connection breaks or the signal aborts first. */
async function acquireLock<Obstacle extends string>(
  { connection, signal }: OpenConnection,
  { name, findObstacle, onStandby, standbyIntervalMs = CHECK_INTERVAL_MS }: LeadershipOptions<Obstacle>,
): Promise<void> {
  const notifier = createNotifier();
  connection.on("notification", ({ payload }) => payload === name && notifier.wake());
  await connection.query(`LISTEN ${RELEASE_CHANNEL}`);
  while (!signal.aborted) {
    const obstacle = await findObstacle?.(connection);
    if (!obstacle && (await tryLock(connection, name))) return;
    onStandby(obstacle ?? STANDBY_DETAIL);
    await notifier.sleep(standbyIntervalMs, signal);
  }
  throw new Error("The connection to the database was lost.");
}

/**
 * Checks the connection and the kind of its server every second, and throws if a check fails. Returns if `findObstacle`
 * returns a reason, or if the signal aborts.
 */
async function checkUntilLost<Obstacle extends string>(
  { connection }: OpenConnection,
  { findObstacle }: LeadershipOptions<Obstacle>,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    await pause(CHECK_INTERVAL_MS, signal);
    if (signal.aborted) return;
    await connection.requireServerKind();
    if (await findObstacle?.(connection)) return;
  }
}

/** Tries to take a session-level advisory lock. Returns false if another session holds the lock. */
export async function tryLock(connection: pg.ClientBase, name: string): Promise<boolean> {
  const { rows } = await connection.query<{ held: boolean }>(
    "SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS held",
    [name],
  );
  return rows[0]?.held === true;
}
