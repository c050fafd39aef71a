import type pg from "pg";
import { BEFORE_FIRST_EVENT } from "../../shared/eventstore/read-log.ts";
import { TRANSACTION_PAUSE_LIMIT_MS } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { runTaskGroup } from "../../shared/runtime/abort.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { readCheckpoint } from "../checkpoints/checkpoint.ts";
import { recordMissingEvents } from "../checkpoints/late-events.ts";
import { findLogDifference, requireCheckpointInLog, requireSameLog } from "../checkpoints/same-log.ts";
import { readWebhookCheckpoint } from "../checkpoints/webhook-checkpoints.ts";
import { getSwapLockName } from "./apply-batch.ts";
import { buildIndexesDdl, buildTablesDdl, computeFingerprint } from "./ddl.ts";
import {
  dropSchema,
  LOCK_RETRY_INTERVAL_MS,
  LOCK_TIMEOUT_MS,
  runUnlessLocked,
  withMaintenanceLock,
} from "./maintenance.ts";
import { runProjection } from "./projection.ts";
import type { ProjectionOptions, ProjectionProgress } from "./projection-options.ts";

/** Schema that a rebuild fills. After an interruption, the next rebuild continues with this schema. */
export const NEXT_SCHEMA = `${READ_MODEL_SCHEMA}_next`;

/** Schema of the replaced read models until these read models are dropped. */
export const FORMER_SCHEMA = `${READ_MODEL_SCHEMA}_former`;

/** Time limit for the new tables to catch up while the swap blocks writes to the live tables. */
const CATCH_UP_TIMEOUT_MS = 5_000;
const CATCH_UP_CHECK_INTERVAL_MS = 5;

export interface RebuildOptions
  extends Pick<ProjectionOptions, "client" | "pool" | "dataKeys" | "readLog" | "models" | "logger" | "onProgress"> {
  /** Set only if an operator adopts another event log. Called after the swap of the tables, in the same transaction. */
  adopt?(connection: pg.ClientBase): Promise<void>;
}

type RebuildRun = RebuildOptions & Omit<ProjectionOptions, "schema">;

/**
 * Rebuilds all read models from the log in new tables, and swaps the tables in one transaction when the new tables have
 * caught up. Until the swap, the current tables stay in use and up to date. If the process is killed, the next run
 * continues from the checkpoint of the new tables. If the table definitions or the log have changed, the next run instead
 * starts from the beginning.
 *
 * @returns log position that the new tables reflected when they came into use; undefined if the signal aborted first
 * @throws {StartError} if another rebuild, or a verify, prune or scrub is running
 * @throws {DifferentLogError} if the current read models were built from another log, and `adopt` is not set
 * @throws {ProjectionError} if only an operator can resolve a failure
 */
export async function rebuild(options: RebuildOptions, signal: AbortSignal): Promise<bigint | undefined> {
  const adoptsLog = options.adopt !== undefined;
  return withMaintenanceLock(options.pool, async (connection) => {
    if (!adoptsLog) await requireSameLog(options);
    const rebuildRun: RebuildRun = { ...options, fillsUnusedTables: true, adoptsLog };
    await prepareNextSchema(connection, rebuildRun, signal);
    await runUntilCaughtUp(rebuildRun, signal);
    if (signal.aborted) return undefined;
    await connection.query(buildIndexesDdl(options.models, NEXT_SCHEMA));
    for (const { table } of options.models) await connection.query(`ANALYZE ${NEXT_SCHEMA}.${table}`);
    return runUntilSwapped(connection, rebuildRun, signal);
  });
}

async function prepareNextSchema(connection: pg.ClientBase, options: RebuildRun, signal: AbortSignal): Promise<void> {
  // An earlier run may have been killed between its swap and this deletion.
  await dropSchema(connection, FORMER_SCHEMA, signal);
  if (await canContinue(connection, options)) return;
  // Several statements in one query are one transaction.
  await connection.query(
    `DROP SCHEMA IF EXISTS ${NEXT_SCHEMA} CASCADE; ${buildTablesDdl(options.models, NEXT_SCHEMA)}`,
  );
}

async function canContinue(connection: pg.ClientBase, options: RebuildRun): Promise<boolean> {
  const { rowCount } = await connection.query("SELECT FROM pg_namespace WHERE nspname = $1", [NEXT_SCHEMA]);
  if (rowCount === 0) return false;
  const checkpoint = await readCheckpoint(connection, NEXT_SCHEMA);
  if (checkpoint.fingerprint !== computeFingerprint(options.models)) return false;
  return !(await findLogDifference(requireCheckpointInLog(options.client, `schema ${NEXT_SCHEMA}`, checkpoint)));
}

async function runUntilCaughtUp(options: RebuildRun, signal: AbortSignal): Promise<void> {
  const caughtUpController = new AbortController();
  const onProgress = (progress: ProjectionProgress) => {
    options.onProgress(progress);
    if (progress.hasCaughtUp) caughtUpController.abort();
  };
  const runSignal = AbortSignal.any([signal, caughtUpController.signal]);
  await runProjection({ ...options, schema: NEXT_SCHEMA, onProgress }, runSignal);
}

/** Keeps the new tables up to date until they have replaced the current tables. */
async function runUntilSwapped(
  connection: pg.ClientBase,
  options: RebuildRun,
  signal: AbortSignal,
): Promise<bigint | undefined> {
  let lastReadPosition = BEFORE_FIRST_EVENT;
  let swapPosition: bigint | undefined;
  let projectionError: unknown;
  const onProgress = (progress: ProjectionProgress) => {
    lastReadPosition = progress.lastReadPosition;
    options.onProgress(progress);
  };
  await runTaskGroup(signal, [
    async (groupSignal) => {
      swapPosition = await swapIn(connection, { ...options, getPosition: () => lastReadPosition }, groupSignal);
    },
    async (groupSignal) => {
      const runOptions = { ...options, readLog: undefined, schema: NEXT_SCHEMA, onProgress };
      await runProjection(runOptions, groupSignal).catch((error: unknown) => {
        projectionError = error;
      });
    },
  ]);
  // After the swap, the projection run may fail because its schema has a new name. Such an error is ignored.
  if (swapPosition === undefined && projectionError !== undefined) throw projectionError;
  if (swapPosition !== undefined) await dropSchema(connection, FORMER_SCHEMA, signal);
  return swapPosition;
}

interface SwapOptions extends Pick<RebuildOptions, "logger" | "adopt"> {
  getPosition(): bigint;
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
async function swapIn(
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

/** Records late events: events that partners missed because the former tables had quarantined streams. */
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
