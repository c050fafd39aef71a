import type pg from "pg";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { BEFORE_FIRST_EVENT, READ_MODEL_SCHEMA, readCheckpoint } from "../checkpoints/checkpoint.ts";
import { findLogDifference, requireAnchored, requireSameLog } from "../checkpoints/same-log.ts";
import { readParkedStreams } from "../parking/parked-streams.ts";
import { isMissingOnlyParkedEvents, readSkipped } from "../parking/skipped-events.ts";
import { buildAnchorDdl, buildIndexesDdl, buildTablesDdl, computeFingerprint } from "./ddl.ts";
import { withMaintenanceLock } from "./maintenance.ts";
import { runProjection } from "./projection.ts";
import type { ProjectionOptions, ProjectionProgress } from "./projection-options.ts";
import { dropFormer, NEXT_SCHEMA, swapIn } from "./swap.ts";

export interface RebuildOptions
  extends Pick<ProjectionOptions, "client" | "pool" | "models" | "logger" | "onProgress"> {
  /** Parked stream whose events the rebuild includes. */
  includedStream?: string | undefined;
  /**
   * Set if an operator adopts an event log that the current read models were not built from. Called in the transaction
   * that replaces the tables.
   */
  adopt?(connection: pg.ClientBase): Promise<void>;
}

type RebuildRun = RebuildOptions & Omit<ProjectionOptions, "schema">;

/**
 * Rebuilds all read models from the log in new tables, and swaps the tables in one transaction when the new tables have
 * caught up. Until the swap, the current tables stay in use and up to date. If the process is killed, the next run
 * continues from the checkpoint of the new tables. If the table definitions, the skipped streams or the log have
 * changed, the next run instead starts from the beginning.
 *
 * @returns log position that the new tables reflected when they came into use; undefined if the signal aborted first
 * @throws {StartError} if another rebuild or verify is running, or there are no read models yet
 * @throws {DifferentLogError} if the current read models were built from another log, and `adopt` is not set
 * @throws {ProjectionError} for an event that cannot be processed
 */
export async function rebuild(options: RebuildOptions, signal: AbortSignal): Promise<bigint | undefined> {
  const log = createEventLog(options.client);
  const loadParked = async () => {
    const { streams, lastRevision } = await readParkedStreams(log);
    const skipped = [...streams].filter(([stream]) => stream !== options.includedStream);
    return { streams: new Map(skipped), lastRevision };
  };
  const adoptsLog = options.adopt !== undefined;
  const run: RebuildRun = { ...options, loadParked, fillsUnusedTables: true, adoptsLog };
  return withMaintenanceLock(options.pool, async (connection) => {
    if (!(await hasReadModels(connection, READ_MODEL_SCHEMA))) {
      throw new StartError("There are no read models yet. Start the projection service, which creates them.");
    }
    if (!adoptsLog) await requireSameLog(options);
    await prepareNextSchema(connection, run, signal);
    await runUntilCaughtUp(run, signal);
    if (signal.aborted) return undefined;
    await connection.query(buildIndexesDdl(options.models, NEXT_SCHEMA));
    for (const { table } of options.models) await connection.query(`ANALYZE ${NEXT_SCHEMA}.${table}`);
    return runUntilSwapped(connection, run, signal);
  });
}

async function hasReadModels(connection: pg.ClientBase, schema: string): Promise<boolean> {
  const { rows } = await connection.query<{ found: boolean }>(
    "SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL AS found",
    [`${schema}.checkpoint`, `${schema}.passed_over`],
  );
  return rows[0]?.found === true;
}

/** Creates the new tables, or keeps the tables of an interrupted run. */
async function prepareNextSchema(connection: pg.ClientBase, options: RebuildRun, signal: AbortSignal): Promise<void> {
  // If an earlier run was killed right after its swap, the former tables still exist.
  await dropFormer(connection, signal);
  if ((await hasReadModels(connection, NEXT_SCHEMA)) && (await canContinue(connection, options))) return;
  await connection.query("BEGIN");
  await connection.query(`DROP SCHEMA IF EXISTS ${NEXT_SCHEMA} CASCADE`);
  await connection.query(buildTablesDdl(options.models, NEXT_SCHEMA));
  await connection.query("COMMIT");
}

async function canContinue(connection: pg.ClientBase, { client, models, loadParked }: RebuildRun): Promise<boolean> {
  // An earlier release may have created the tables without anchor columns.
  await connection.query(buildAnchorDdl(NEXT_SCHEMA));
  const checkpoint = await readCheckpoint(connection, NEXT_SCHEMA);
  // Without an anchor, the code cannot tell from which log the tables were built.
  if (!checkpoint.anchor || checkpoint.fingerprint !== computeFingerprint(models)) return false;
  if (await findLogDifference(requireAnchored(client, `schema ${NEXT_SCHEMA}`, checkpoint))) return false;
  const skipped = await readSkipped(connection, NEXT_SCHEMA);
  return isMissingOnlyParkedEvents(await loadParked(), skipped, checkpoint.position);
}

/** Projects the log into the new schema until the schema has caught up. */
async function runUntilCaughtUp(options: RebuildRun, signal: AbortSignal): Promise<void> {
  const done = new AbortController();
  const onProgress = (progress: ProjectionProgress) => {
    options.onProgress(progress);
    if (progress.hasCaughtUp) done.abort();
  };
  const either = AbortSignal.any([signal, done.signal]);
  await runProjection({ ...options, schema: NEXT_SCHEMA, onProgress }, either);
}

/** Keeps the new tables up to date until the swap succeeds, or the signal aborts. */
async function runUntilSwapped(
  connection: pg.ClientBase,
  options: RebuildRun,
  signal: AbortSignal,
): Promise<bigint | undefined> {
  const done = new AbortController();
  const failed = new AbortController();
  let readUpTo = BEFORE_FIRST_EVENT;
  const onProgress = (progress: ProjectionProgress) => {
    readUpTo = progress.readUpTo;
    options.onProgress(progress);
  };
  const following = runProjection(
    { ...options, schema: NEXT_SCHEMA, onProgress },
    AbortSignal.any([signal, done.signal]),
  ).catch((error: unknown) => {
    // If the projection run has ended, the new tables cannot catch up, so the swap must end too.
    failed.abort();
    throw error;
  });
  const swap = { ...options, getReadUpTo: () => readUpTo };
  const swapping = swapIn(connection, swap, AbortSignal.any([signal, failed.signal]));
  const [followed, swapped] = await Promise.allSettled([following, swapping.finally(() => done.abort())]);
  if (swapped.status === "rejected") throw swapped.reason;
  // After the swap, the projection run may fail because its schema has a new name. Such an error is ignored.
  if (followed.status === "rejected" && swapped.value === undefined) throw followed.reason;
  if (swapped.value !== undefined) await dropFormer(connection, signal);
  return swapped.value;
}
