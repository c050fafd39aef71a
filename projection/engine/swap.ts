import pg from "pg";
import { pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { CHECKPOINT, READ_MODEL_SCHEMA, readPosition } from "../checkpoints/checkpoint.ts";
import { swapLock } from "./apply-batch.ts";

/** Schema that a rebuild fills. The next run continues an interrupted one. */
export const NEXT_SCHEMA = "read_model_next";

/** Former schema, until it is dropped. */
export const FORMER_SCHEMA = "read_model_former";

/** Time for the new tables to catch up while writes to the live ones are blocked. Milliseconds. */
const CATCH_UP_TIMEOUT_MS = 5_000;

/** Time to wait for running reads. New reads queue meanwhile. Milliseconds. */
const LOCK_TIMEOUT_MS = 200;

/** Milliseconds. */
const RETRY_INTERVAL_MS = 500;

/** SQLSTATE: a lock was not available in time. */
const LOCK_NOT_AVAILABLE = "55P03";

export interface SwapOptions {
  logger: Logger;
  /** Returns the position up to which the log was read into the new tables. */
  seen(): bigint;
  /** Set if the new tables come from another log than the current ones. Called in the transaction, after the swap. */
  adopt?(connection: pg.ClientBase): Promise<void>;
}

/**
 * Replaces the current tables by the new ones in one transaction, as soon as the new ones have caught up. A statement sees
 * either all former tables or all new ones: the swap locks all former tables, so no statement can resolve some names
 * before the swap and others after it.
 *
 * The former tables stay under another name until {@link dropFormer}. Positions of different logs cannot be compared, so
 * tables of an adopted log need not have caught up.
 *
 * @returns position of the new tables at the swap; undefined if the signal aborted first
 */
export async function swapIn(
  connection: pg.ClientBase,
  options: SwapOptions,
  signal: AbortSignal,
): Promise<bigint | undefined> {
  while (!signal.aborted) {
    await connection.query("BEGIN");
    const position = await trySwap(connection, options, signal);
    if (position !== undefined) {
      await connection.query("COMMIT");
      return position;
    }
    await connection.query("ROLLBACK");
    await pause(RETRY_INTERVAL_MS, signal);
  }
  return undefined;
}

/**
 * Drops the former tables, if there are any. Sessions with plans for them may lock them in another order, so each wait for
 * a lock is too short for a deadlock. If the signal aborts first, the next rebuild drops them.
 */
export async function dropFormer(connection: pg.ClientBase, signal: AbortSignal): Promise<void> {
  await connection.query(`SET lock_timeout = ${LOCK_TIMEOUT_MS}`);
  try {
    while (!signal.aborted && !(await hasDroppedFormer(connection))) await pause(RETRY_INTERVAL_MS, signal);
  } finally {
    await connection.query("RESET lock_timeout");
  }
}

async function hasDroppedFormer(connection: pg.ClientBase): Promise<boolean> {
  try {
    await connection.query(`DROP SCHEMA IF EXISTS ${FORMER_SCHEMA} CASCADE`);
    return true;
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE) return false;
    throw error;
  }
}

async function trySwap(
  connection: pg.ClientBase,
  { seen, adopt, logger }: SwapOptions,
  signal: AbortSignal,
): Promise<bigint | undefined> {
  await lockWriters(connection, READ_MODEL_SCHEMA);
  const live = await readPosition(connection, READ_MODEL_SCHEMA);
  if (!adopt && !(await untilReached(seen, live, signal))) {
    logger.warn("The new read models did not catch up in time. The swap is tried again.");
    return undefined;
  }
  // The writer of the new schema must be between two batches too.
  await lockWriters(connection, NEXT_SCHEMA);
  if (!(await lockReaders(connection))) {
    logger.warn("A long read of the live read models blocks the swap. The swap is tried again.");
    return undefined;
  }
  await connection.query(`ALTER SCHEMA ${READ_MODEL_SCHEMA} RENAME TO ${FORMER_SCHEMA}`);
  await connection.query(`ALTER SCHEMA ${NEXT_SCHEMA} RENAME TO ${READ_MODEL_SCHEMA}`);
  if (adopt) await adopt(connection);
  else await keepUp(connection, live);
  return readPosition(connection, READ_MODEL_SCHEMA);
}

/**
 * Keeps the checkpoint from moving back. Earlier releases moved it at events of other programs too, so the former
 * checkpoint may be past the last event of the catalog.
 */
async function keepUp(connection: pg.ClientBase, live: bigint): Promise<void> {
  await connection.query(
    `UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET position = $1 WHERE name = $2 AND position < $1`,
    [live, CHECKPOINT],
  );
}

async function lockWriters(connection: pg.ClientBase, schema: string): Promise<void> {
  await connection.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [swapLock(schema)]);
}

/** @returns false if a read did not end in time. Then the transaction can only be rolled back */
async function lockReaders(connection: pg.ClientBase): Promise<boolean> {
  const { rows } = await connection.query<{ tables: string }>(
    "SELECT string_agg(oid::regclass::text, ', ' ORDER BY oid) AS tables FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'",
    [READ_MODEL_SCHEMA],
  );
  await connection.query(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);
  try {
    await connection.query(`LOCK TABLE ${rows[0]?.tables} IN ACCESS EXCLUSIVE MODE`);
    return true;
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE) return false;
    throw error;
  }
}

/** Waits until the new read models reach a position. @returns false if the time is up or the signal aborted */
async function untilReached(seen: () => bigint, position: bigint, signal: AbortSignal): Promise<boolean> {
  const deadline = performance.now() + CATCH_UP_TIMEOUT_MS;
  while (!signal.aborted && performance.now() < deadline) {
    if (seen() >= position) return true;
    await pause(5, signal);
  }
  return false;
}
