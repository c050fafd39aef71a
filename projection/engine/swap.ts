import pg from "pg";
import { pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { CHECKPOINT, READ_MODEL_SCHEMA, readPosition } from "../checkpoints/checkpoint.ts";
import { swapLock } from "./apply-batch.ts";

/** Where a rebuild fills its tables. What an interrupted one left there is gone on with. */
export const NEXT_SCHEMA = "read_model_next";

/** What served before, until it is dropped. */
export const FORMER_SCHEMA = "read_model_former";

/** The new tables catch up with the live ones within this, while the live ones' writer waits. Milliseconds. */
const CATCH_UP_TIMEOUT_MS = 5_000;

/** Reads that hold a table are waited for so long, while others queue up behind. Milliseconds. */
const LOCK_TIMEOUT_MS = 200;

/** Between two tries. Milliseconds. */
const RETRY_INTERVAL_MS = 500;

/** SQLSTATE: a lock was not had in time. */
const LOCK_NOT_AVAILABLE = "55P03";

export interface SwapOptions {
  logger: Logger;
  /** The log was read up to here into the new tables. */
  seen(): bigint;
  /** Set if the new tables come from another log than those that serve. Called in the transaction, after the swap. */
  adopt?(connection: pg.ClientBase): Promise<void>;
}

/**
 * Puts the new tables in the place of those that serve, in one transaction, when they are at least as far. A
 * statement sees either all of the former tables or all of the new ones: the swap holds all former tables alone,
 * so that no statement can have resolved some of its names before and some after.
 *
 * Positions of another log cannot be compared, so an adopted log's tables need not be as far.
 *
 * @returns the position at which the new tables took over; undefined where the signal aborted first
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
      await connection.query(`DROP SCHEMA ${FORMER_SCHEMA} CASCADE`);
      return position;
    }
    await connection.query("ROLLBACK");
    await pause(RETRY_INTERVAL_MS, signal);
  }
  return undefined;
}

async function trySwap(
  connection: pg.ClientBase,
  { seen, adopt, logger }: SwapOptions,
  signal: AbortSignal,
): Promise<bigint | undefined> {
  await lockWriters(connection, READ_MODEL_SCHEMA);
  const live = await readPosition(connection, READ_MODEL_SCHEMA);
  if (!adopt && !(await untilReached(seen, live, signal))) {
    logger.warn("the new read models did not catch up while the live ones waited; tries again");
    return undefined;
  }
  // And alone in the new one too, so that its writer is between two batches.
  await lockWriters(connection, NEXT_SCHEMA);
  if (!(await lockReaders(connection))) {
    logger.warn("a read of the live read models takes long; tries again");
    return undefined;
  }
  await connection.query(`ALTER SCHEMA ${READ_MODEL_SCHEMA} RENAME TO ${FORMER_SCHEMA}`);
  await connection.query(`ALTER SCHEMA ${NEXT_SCHEMA} RENAME TO ${READ_MODEL_SCHEMA}`);
  if (adopt) await adopt(connection);
  else await keepUp(connection, live);
  return readPosition(connection, READ_MODEL_SCHEMA);
}

/**
 * Keeps the checkpoint from going back. Earlier releases moved it at events of other programs too, so the former
 * tables' checkpoint may be beyond the last event of ours.
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

/** @returns false where a read did not end in time: the transaction can only be rolled back then */
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

/** Waits, bounded, until the new read models are as far as the live ones. */
async function untilReached(seen: () => bigint, position: bigint, signal: AbortSignal): Promise<boolean> {
  const deadline = performance.now() + CATCH_UP_TIMEOUT_MS;
  while (!signal.aborted && performance.now() < deadline) {
    if (seen() >= position) return true;
    await pause(5, signal);
  }
  return false;
}
