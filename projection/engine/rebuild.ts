import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createEventLog } from "../../shared/eventstore/log.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { readParked } from "../parking/parked-streams.ts";
import { readCheckpoint } from "./checkpoint.ts";
import { indexesDdl, READ_MODEL_SCHEMA, shapeOf, tablesDdl } from "./ddl.ts";
import { withMaintenance } from "./maintenance.ts";
import { agrees, type Parked, readPassedOver } from "./passed-over.ts";
import { type ProjectionProgress, runProjection } from "./projection.ts";
import type { AnyReadModel } from "./read-model.ts";
import { FORMER_SCHEMA, NEXT_SCHEMA, swapIn } from "./swap.ts";

export interface RebuildOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  models: readonly AnyReadModel[];
  logger: Logger;
  /** A parked stream that is taken in all the same. */
  takeBack?: string;
  onProgress(progress: ProjectionProgress): void;
  /** Told once the new tables serve. */
  onSwapped?(position: bigint): void;
}

type Run = RebuildOptions & { parked(): Promise<Parked>; lazyCommits: true };

/**
 * Builds all read models anew from the log, beside those that serve, and puts them in their place in one transaction
 * when they have caught up. Reads and live events go on all the while. Killed at any point, it leaves the tables that
 * serve as they are; the next run goes on from its checkpoint, or starts anew where the tables have another shape or
 * leave out other streams.
 *
 * @throws {StartError} where another rebuild or verify runs, or no read models are there yet
 * @throws {ProjectionFailure} for an event that cannot be taken
 */
export async function rebuild(given: RebuildOptions, signal: AbortSignal): Promise<void> {
  const log = createEventLog(given.client);
  const parked = async () => {
    const { streams, upTo } = await readParked(log);
    return { streams: new Map([...streams].filter(([stream]) => stream !== given.takeBack)), upTo };
  };
  const options: Run = { ...given, parked, lazyCommits: true };
  await withMaintenance(given.pool, async (connection) => {
    if (!(await exists(connection, READ_MODEL_SCHEMA))) {
      throw new StartError("there are no read models yet: the projection service makes them when it starts");
    }
    await prepare(connection, options);
    await runUntilCaughtUp(options, signal);
    if (signal.aborted) return;
    await connection.query(indexesDdl(options.models, NEXT_SCHEMA));
    for (const { table } of options.models) await connection.query(`ANALYZE ${NEXT_SCHEMA}.${table}`);
    await followAndSwap(connection, options, signal);
  });
}

async function exists(connection: pg.PoolClient, schema: string): Promise<boolean> {
  const { rows } = await connection.query<{ found: boolean }>(
    "SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL AS found",
    [`${schema}.checkpoint`, `${schema}.passed_over`],
  );
  return rows[0]?.found === true;
}

/** Makes the tables, or finds those of an interrupted run. */
async function prepare(connection: pg.PoolClient, { models, parked }: Run): Promise<void> {
  // What a run left that was killed right after its swap.
  await connection.query(`DROP SCHEMA IF EXISTS ${FORMER_SCHEMA} CASCADE`);
  if ((await exists(connection, NEXT_SCHEMA)) && (await isUsable(connection, models, await parked()))) return;
  await connection.query("BEGIN");
  await connection.query(`DROP SCHEMA IF EXISTS ${NEXT_SCHEMA} CASCADE`);
  await connection.query(tablesDdl(models, NEXT_SCHEMA));
  await connection.query("COMMIT");
}

async function isUsable(
  connection: pg.PoolClient,
  models: readonly AnyReadModel[],
  parked: Parked,
): Promise<boolean> {
  const { rows } = await connection.query<{ shape: string }>(`SELECT shape FROM ${NEXT_SCHEMA}.checkpoint`);
  if (rows[0]?.shape !== shapeOf(models)) return false;
  const passed = await readPassedOver(connection, NEXT_SCHEMA);
  return agrees(parked, passed, await readCheckpoint(connection, NEXT_SCHEMA));
}

/** Follows the log into the new schema until all that was stored is in it. */
async function runUntilCaughtUp(options: Run, signal: AbortSignal): Promise<void> {
  const done = new AbortController();
  const onProgress = (progress: ProjectionProgress) => {
    options.onProgress(progress);
    if (progress.caughtUp) done.abort();
  };
  const either = AbortSignal.any([signal, done.signal]);
  await runProjection({ ...options, schema: NEXT_SCHEMA, onProgress }, either);
}

/** Goes on following while the swap is tried; the follower ends with it. */
async function followAndSwap(connection: pg.PoolClient, options: Run, signal: AbortSignal): Promise<void> {
  const done = new AbortController();
  const failed = new AbortController();
  const following = runProjection(
    { ...options, schema: NEXT_SCHEMA },
    AbortSignal.any([signal, done.signal]),
  ).catch((error: unknown) => {
    // Nothing will catch up any more.
    failed.abort();
    throw error;
  });
  const swapping = swapIn(connection, options, AbortSignal.any([signal, failed.signal]));
  const [followed, swapped] = await Promise.allSettled([following, swapping.finally(() => done.abort())]);
  if (swapped.status === "rejected") throw swapped.reason;
  // After the swap the schema that it followed has another name: what it says then is of no interest.
  if (followed.status === "rejected" && swapped.value === undefined) throw followed.reason;
  if (swapped.value !== undefined) options.onSwapped?.(swapped.value);
}
