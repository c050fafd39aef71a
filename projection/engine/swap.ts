import type pg from "pg";
import { TRANSACTION_PAUSE_LIMIT_MS } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { readCheckpoint } from "../checkpoints/checkpoint.ts";
import { recordMissingEvents } from "../checkpoints/late-events.ts";
import { readWebhookCheckpoint } from "../checkpoints/webhook-checkpoints.ts";
import { getSwapLockName } from "./apply-batch.ts";
import { LOCK_RETRY_INTERVAL_MS, LOCK_TIMEOUT_MS, runUnlessLocked } from "./maintenance.ts";

/** Schema that a rebuild fills. After an interruption, the next rebuild continues with this schema. */
export const NEXT_SCHEMA = `${READ_MODEL_SCHEMA}_next`;

/** Schema of the replaced read models until these read models are dropped. */
export const FORMER_SCHEMA = `${READ_MODEL_SCHEMA}_former`;

/** Time limit for the new tables to catch up while the swap blocks writes to the live tables. */
const CATCH_UP_TIMEOUT_MS = 5_000;
const CATCH_UP_CHECK_INTERVAL_MS = 5;

interface SwapOptions {
  logger: Logger;
  getPosition(): bigint;
  /**
   * Set if the new tables were built from a different log than the current tables. Called in the transaction, after the
   * swap.
   */
  adopt?(connection: pg.ClientBase): Promise<void>;
}

/**
 * Replaces the current tables with the new tables in one transaction, as soon as the new tables have caught up. The
 * swap locks all current tables first, so a statement sees either only current tables or only new tables.
 *
 * The replaced tables stay in another schema until the rebuild drops them. If an operator adopts a log,
 * the swap does not wait for the new tables to catch up, because positions of different logs cannot be compared.
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
    await pause(LOCK_RETRY_INTERVAL_MS, signal);
  }
  return undefined;
}

async function trySwap(
  connection: pg.ClientBase,
  { getPosition, adopt, logger }: SwapOptions,
  signal: AbortSignal,
): Promise<bigint | undefined> {
  await connection.query(`SET LOCAL idle_in_transaction_session_timeout = ${TRANSACTION_PAUSE_LIMIT_MS}`);
  await lockWriters(connection, READ_MODEL_SCHEMA);
  const { position: livePosition } = await readCheckpoint(connection, READ_MODEL_SCHEMA);
  if (!adopt && !(await waitUntilReached(getPosition, livePosition, signal))) {
    logger.warn("The new read models did not catch up in time. The swap is retried.");
    return undefined;
  }
  // The writer of the new schema holds this lock during each batch.
  await lockWriters(connection, NEXT_SCHEMA);
  if (!(await lockReaders(connection))) {
    logger.warn("A long-running query on the live read models blocks the swap. The swap will be retried.");
    return undefined;
  }
  await connection.query(`ALTER SCHEMA ${READ_MODEL_SCHEMA} RENAME TO ${FORMER_SCHEMA}`);
  await connection.query(`ALTER SCHEMA ${NEXT_SCHEMA} RENAME TO ${READ_MODEL_SCHEMA}`);
  if (adopt) await adopt(connection);
  else await recordMissing(connection);
  return (await readCheckpoint(connection, READ_MODEL_SCHEMA)).position;
}

/** Partners have not received the events of streams that the former tables had quarantined. */
async function recordMissing(connection: pg.ClientBase): Promise<void> {
  for (const name of ["deliveries", "messages"] as const) {
    const { position, readModels } = await readWebhookCheckpoint(connection, name);
    if (readModels === READ_MODEL_SCHEMA) await recordMissingEvents(connection, FORMER_SCHEMA, { name, position });
  }
}

async function lockWriters(connection: pg.ClientBase, schema: string): Promise<void> {
  await connection.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [getSwapLockName(schema)]);
}

/**
 * Locks all live tables.
 *
 * @returns false if a running query did not end in time. The transaction must then be rolled back
 */
async function lockReaders(connection: pg.ClientBase): Promise<boolean> {
  const { rows } = await connection.query<{ names: string }>(
    "SELECT string_agg(oid::regclass::text, ', ' ORDER BY oid) AS names FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'",
    [READ_MODEL_SCHEMA],
  );
  await connection.query(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);
  return runUnlessLocked(connection, `LOCK TABLE ${rows[0]?.names} IN ACCESS EXCLUSIVE MODE`);
}

async function waitUntilReached(getPosition: () => bigint, position: bigint, signal: AbortSignal): Promise<boolean> {
  const deadline = performance.now() + CATCH_UP_TIMEOUT_MS;
  while (!signal.aborted && performance.now() < deadline) {
    if (getPosition() >= position) return true;
    await pause(CATCH_UP_CHECK_INTERVAL_MS, signal);
  }
  return false;
}
