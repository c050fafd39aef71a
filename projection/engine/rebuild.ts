import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { swapLock } from "./apply-batch.ts";
import { indexesDdl, READ_MODEL_SCHEMA, shapeOf, tablesDdl } from "./ddl.ts";
import { type ProjectionProgress, readCheckpoint, runProjection } from "./projection.ts";
import type { AnyReadModel } from "./read-model.ts";

export interface RebuildOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  models: readonly AnyReadModel[];
  logger: Logger;
  onProgress(progress: ProjectionProgress): void;
  /** Told once the new tables serve. */
  onSwapped?(position: bigint): void;
}

/** Where a rebuild fills its tables. What an interrupted one left there is gone on with. */
export const NEXT_SCHEMA = "read_model_next";
const FORMER_SCHEMA = "read_model_former";

/** A writer to the new schema catches up with the live one within this, while the live one waits. Milliseconds. */
const LAST_STEP_WITHIN = 5_000;

/**
 * Builds all read models anew from the log, beside those that serve, and puts them in their place in one transaction
 * when they have caught up. Reads and live events go on all the while. Killed at any point, it leaves the tables that
 * serve as they are; the next run goes on from its checkpoint, or starts anew where the tables have another shape.
 *
 * @throws {StartError} where another rebuild runs
 * @throws {ProjectionFailure} for an event that cannot be taken
 */
export async function rebuild(options: RebuildOptions, signal: AbortSignal): Promise<void> {
  const connection = await options.pool.connect();
  try {
    await connection.query("SET statement_timeout = 0");
    if (!(await lockRebuild(connection))) throw new StartError("another rebuild runs");
    await prepare(connection, options.models);
    await runUntilCaughtUp(options, signal);
    if (signal.aborted) return;
    await connection.query(indexesDdl(options.models, NEXT_SCHEMA));
    for (const { table } of options.models) await connection.query(`ANALYZE ${NEXT_SCHEMA}.${table}`);
    await followAndSwap(connection, options, signal);
  } finally {
    // Not given back to the pool: its end releases the lock and its settings.
    connection.release(true);
  }
}

async function lockRebuild(connection: pg.PoolClient): Promise<boolean> {
  const { rows } = await connection.query<{ held: boolean }>(
    "SELECT pg_try_advisory_lock(hashtextextended('rebuild', 0)) AS held",
  );
  return rows[0]?.held === true;
}

/** Makes the tables, or finds those of an interrupted run. */
async function prepare(connection: pg.PoolClient, models: readonly AnyReadModel[]): Promise<void> {
  // What a run left that was killed right after its swap.
  await connection.query(`DROP SCHEMA IF EXISTS ${FORMER_SCHEMA} CASCADE`);
  const { rows } = await connection.query<{ found: boolean }>("SELECT to_regclass($1) IS NOT NULL AS found", [
    `${NEXT_SCHEMA}.checkpoint`,
  ]);
  if (rows[0]?.found) {
    const { rows: left } = await connection.query<{ shape: string }>(
      `SELECT shape FROM ${NEXT_SCHEMA}.checkpoint`,
    );
    if (left[0]?.shape === shapeOf(models)) return;
  }
  await connection.query("BEGIN");
  await connection.query(`DROP SCHEMA IF EXISTS ${NEXT_SCHEMA} CASCADE`);
  await connection.query(tablesDdl(models, NEXT_SCHEMA));
  await connection.query("COMMIT");
}

/** Follows the log into the new schema until all that was stored is in it. */
async function runUntilCaughtUp(options: RebuildOptions, signal: AbortSignal): Promise<void> {
  const done = new AbortController();
  const onProgress = (progress: ProjectionProgress) => {
    options.onProgress(progress);
    if (progress.caughtUp) done.abort();
  };
  const either = AbortSignal.any([signal, done.signal]);
  await runProjection({ ...options, schema: NEXT_SCHEMA, onProgress }, either);
}

/** Goes on following while the swap is tried; the follower ends with it. */
async function followAndSwap(
  connection: pg.PoolClient,
  options: RebuildOptions,
  signal: AbortSignal,
): Promise<void> {
  const done = new AbortController();
  const following = runProjection(
    { ...options, schema: NEXT_SCHEMA },
    AbortSignal.any([signal, done.signal]),
  );
  const swapping = trySwap(connection, options, signal).finally(() => done.abort());
  const [followed, swapped] = await Promise.allSettled([following, swapping]);
  if (swapped.status === "rejected") throw swapped.reason;
  // After the swap the schema that it followed has another name: what it says then is of no interest.
  if (followed.status === "rejected" && swapped.value === undefined) throw followed.reason;
  if (swapped.value !== undefined) options.onSwapped?.(swapped.value);
}

/** @returns the position at which the new tables took over; undefined where the signal aborted first */
async function trySwap(
  connection: pg.PoolClient,
  { pool, logger }: RebuildOptions,
  signal: AbortSignal,
): Promise<bigint | undefined> {
  while (!signal.aborted) {
    await connection.query("BEGIN");
    await connection.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [
      swapLock(READ_MODEL_SCHEMA),
    ]);
    const live = await readCheckpoint(connection, READ_MODEL_SCHEMA);
    if (await reaches(pool, live, signal)) {
      // And alone in the new one too, so that its writer is between two batches.
      await connection.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [
        swapLock(NEXT_SCHEMA),
      ]);
      const position = await readCheckpoint(connection, NEXT_SCHEMA);
      await connection.query(`ALTER SCHEMA ${READ_MODEL_SCHEMA} RENAME TO ${FORMER_SCHEMA}`);
      await connection.query(`ALTER SCHEMA ${NEXT_SCHEMA} RENAME TO ${READ_MODEL_SCHEMA}`);
      await connection.query("COMMIT");
      await connection.query(`DROP SCHEMA ${FORMER_SCHEMA} CASCADE`);
      return position;
    }
    await connection.query("ROLLBACK");
    logger.warn("the new read models did not catch up while the live ones waited; tries again");
  }
  return undefined;
}

/** Waits, bounded, until the new read models are as far as the live ones. */
async function reaches(pool: pg.Pool, position: bigint, signal: AbortSignal): Promise<boolean> {
  const deadline = performance.now() + LAST_STEP_WITHIN;
  while (!signal.aborted && performance.now() < deadline) {
    if ((await readCheckpoint(pool, NEXT_SCHEMA)) >= position) return true;
    await pause(5, signal);
  }
  return false;
}
