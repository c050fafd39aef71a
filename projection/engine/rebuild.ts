import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createEventLog } from "../../shared/eventstore/log.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import {
  BEFORE_FIRST,
  READ_MODEL_SCHEMA,
  type ReadModelCheckpoint,
  readCheckpoint,
} from "../checkpoints/checkpoint.ts";
import { DifferentLogError, requireAnchored, requireSameLog } from "../checkpoints/same-log.ts";
import { readParked } from "../parking/parked-streams.ts";
import { matchesParked, type Parked, readSkipped } from "../parking/skipped-events.ts";
import { anchorDdl, indexesDdl, shapeOf, tablesDdl } from "./ddl.ts";
import { withMaintenance } from "./maintenance.ts";
import { runProjection } from "./projection.ts";
import type { ProjectionProgress } from "./projection-options.ts";
import type { AnyReadModel } from "./read-model.ts";
import { dropFormer, NEXT_SCHEMA, swapIn } from "./swap.ts";

export interface RebuildOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  models: readonly AnyReadModel[];
  logger: Logger;
  /** A parked stream whose events are included. */
  includedStream?: string;
  /**
   * Set if an operator adopts a log from which the current read models were not built. Called in the transaction that
   * replaces the tables.
   */
  adopt?(connection: pg.ClientBase): Promise<void>;
  onProgress(progress: ProjectionProgress): void;
  /** Called when the new tables are in use. */
  onSwapped?(position: bigint): void;
}

type RebuildRun = RebuildOptions & { parked(): Promise<Parked>; lazyCommits: true; adopting: boolean };

/**
 * Rebuilds all read models from the log in new tables, and swaps the tables in one transaction when the new ones have
 * caught up. Reads and live events continue meanwhile. If the process is killed, the current tables stay in use, and the
 * next run continues from the checkpoint of the new tables. It starts again from the beginning if these tables have
 * other definitions, skip other streams or come from another log.
 *
 * @throws {StartError} if another rebuild or verify is running, or there are no read models yet
 * @throws {DifferentLogError} if the current read models were built from another log, and `adopt` is not set
 * @throws {ProjectionError} for an event that cannot be processed
 */
export async function rebuild(given: RebuildOptions, signal: AbortSignal): Promise<void> {
  const log = createEventLog(given.client);
  const parked = async () => {
    const { streams, upTo } = await readParked(log);
    return { streams: new Map([...streams].filter(([stream]) => stream !== given.includedStream)), upTo };
  };
  const options: RebuildRun = { ...given, parked, lazyCommits: true, adopting: given.adopt !== undefined };
  await withMaintenance(given.pool, async (connection) => {
    if (!(await exists(connection, READ_MODEL_SCHEMA))) {
      throw new StartError("There are no read models yet. Start the projection service: it creates them.");
    }
    if (!options.adopting) await requireSameLog(options);
    await prepare(connection, options, signal);
    await runUntilCaughtUp(options, signal);
    if (signal.aborted) return;
    await connection.query(indexesDdl(options.models, NEXT_SCHEMA));
    for (const { table } of options.models) await connection.query(`ANALYZE ${NEXT_SCHEMA}.${table}`);
    await followAndSwap(connection, options, signal);
  });
}

async function exists(connection: pg.ClientBase, schema: string): Promise<boolean> {
  const { rows } = await connection.query<{ found: boolean }>(
    "SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL AS found",
    [`${schema}.checkpoint`, `${schema}.passed_over`],
  );
  return rows[0]?.found === true;
}

/** Creates the new tables, or keeps those of an interrupted run. */
async function prepare(connection: pg.ClientBase, options: RebuildRun, signal: AbortSignal): Promise<void> {
  // Left by a run that was killed right after its swap.
  await dropFormer(connection, signal);
  if ((await exists(connection, NEXT_SCHEMA)) && (await isUsable(connection, options))) return;
  await connection.query("BEGIN");
  await connection.query(`DROP SCHEMA IF EXISTS ${NEXT_SCHEMA} CASCADE`);
  await connection.query(tablesDdl(options.models, NEXT_SCHEMA));
  await connection.query("COMMIT");
}

async function isUsable(connection: pg.ClientBase, { client, models, parked }: RebuildRun): Promise<boolean> {
  // An earlier release may have created them.
  await connection.query(anchorDdl(NEXT_SCHEMA));
  const checkpoint = await readCheckpoint(connection, NEXT_SCHEMA);
  // Without an anchor, their log is unknown.
  if (!checkpoint.anchor || checkpoint.shape !== shapeOf(models)) return false;
  if (!(await isAnchored(client, checkpoint))) return false;
  const skipped = await readSkipped(connection, NEXT_SCHEMA);
  return matchesParked(await parked(), skipped, checkpoint.position);
}

async function isAnchored(client: EventStoreDBClient, checkpoint: ReadModelCheckpoint): Promise<boolean> {
  try {
    await requireAnchored(client, `schema ${NEXT_SCHEMA}`, checkpoint);
    return true;
  } catch (error) {
    if (error instanceof DifferentLogError) return false;
    throw error;
  }
}

/** Projects the log into the new schema until it has caught up. */
async function runUntilCaughtUp(options: RebuildRun, signal: AbortSignal): Promise<void> {
  const done = new AbortController();
  const onProgress = (progress: ProjectionProgress) => {
    options.onProgress(progress);
    if (progress.caughtUp) done.abort();
  };
  const either = AbortSignal.any([signal, done.signal]);
  await runProjection({ ...options, schema: NEXT_SCHEMA, onProgress }, either);
}

/** Keeps projecting while it tries the swap, until the swap succeeds. */
async function followAndSwap(
  connection: pg.ClientBase,
  options: RebuildRun,
  signal: AbortSignal,
): Promise<void> {
  const done = new AbortController();
  const failed = new AbortController();
  let seen = BEFORE_FIRST;
  const onProgress = (progress: ProjectionProgress) => {
    seen = progress.seen;
    options.onProgress(progress);
  };
  const following = runProjection(
    { ...options, schema: NEXT_SCHEMA, onProgress },
    AbortSignal.any([signal, done.signal]),
  ).catch((error: unknown) => {
    // The new tables can no longer catch up.
    failed.abort();
    throw error;
  });
  const swap = { ...options, seen: () => seen };
  const swapping = swapIn(connection, swap, AbortSignal.any([signal, failed.signal]));
  const [followed, swapped] = await Promise.allSettled([following, swapping.finally(() => done.abort())]);
  if (swapped.status === "rejected") throw swapped.reason;
  // After the swap its schema has another name, so its errors do not matter.
  if (followed.status === "rejected" && swapped.value === undefined) throw followed.reason;
  if (swapped.value === undefined) return;
  await dropFormer(connection, signal);
  options.onSwapped?.(swapped.value);
}
