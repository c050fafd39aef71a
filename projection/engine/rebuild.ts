import type pg from "pg";
import { BEFORE_FIRST_EVENT } from "../../shared/eventstore/read-log.ts";
import { readCheckpoint } from "../checkpoints/checkpoint.ts";
import { findLogDifference, requireCheckpointInLog, requireSameLog } from "../checkpoints/same-log.ts";
import { readQuarantineDecisions, readQuarantinedStreams } from "../quarantine/quarantined-streams.ts";
import { buildIndexesDdl, buildTablesDdl, computeFingerprint } from "./ddl.ts";
import { dropSchema, withMaintenanceLock } from "./maintenance.ts";
import { runProjection } from "./projection.ts";
import type { ProjectionOptions, ProjectionProgress } from "./projection-options.ts";
import { FORMER_SCHEMA, NEXT_SCHEMA, swapIn } from "./swap.ts";

export interface RebuildOptions
  extends Pick<ProjectionOptions, "client" | "pool" | "dataKeys" | "readLog" | "models" | "logger" | "onProgress"> {
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
 * continues from the checkpoint of the new tables. If the table definitions or the log have changed, or if
 * the tables contain a stream that an operator has quarantined since, the next run instead starts from the beginning.
 *
 * @returns log position that the new tables reflected when they came into use; undefined if the signal aborted first
 * @throws {StartError} if another rebuild or verify is running
 * @throws {DifferentLogError} if the current read models were built from another log, and `adopt` is not set
 * @throws {ProjectionError} if only an operator can resolve a failure
 */
export async function rebuild(options: RebuildOptions, signal: AbortSignal): Promise<bigint | undefined> {
  const loadDecisions = () => readQuarantineDecisions(options.client);
  const adoptsLog = options.adopt !== undefined;
  return withMaintenanceLock(options.pool, async (connection) => {
    if (!adoptsLog) await requireSameLog(options);
    const rebuildRun: RebuildRun = { ...options, loadDecisions, fillsUnusedTables: true, adoptsLog };
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
  if (await findLogDifference(requireCheckpointInLog(options.client, `schema ${NEXT_SCHEMA}`, checkpoint)))
    return false;
  const { streams } = await options.loadDecisions();
  const quarantinedStreams = await readQuarantinedStreams(connection, NEXT_SCHEMA);
  return [...streams].every(
    ([stream, { position }]) => position > checkpoint.position || quarantinedStreams.has(stream),
  );
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

async function runUntilSwapped(
  connection: pg.ClientBase,
  options: RebuildRun,
  signal: AbortSignal,
): Promise<bigint | undefined> {
  const swapController = new AbortController();
  const failureController = new AbortController();
  let lastReadPosition = BEFORE_FIRST_EVENT;
  const onProgress = (progress: ProjectionProgress) => {
    lastReadPosition = progress.lastReadPosition;
    options.onProgress(progress);
  };
  const projectionPromise = runProjection(
    { ...options, readLog: undefined, schema: NEXT_SCHEMA, onProgress },
    AbortSignal.any([signal, swapController.signal]),
  ).catch((error: unknown) => {
    // If the projection run has ended, the new tables cannot catch up, so the swap must end too.
    failureController.abort();
    throw error;
  });
  const swapOptions = { ...options, getPosition: () => lastReadPosition };
  const swapSignal = AbortSignal.any([signal, failureController.signal]);
  const swapPromise = swapIn(connection, swapOptions, swapSignal).finally(() => swapController.abort());
  const [projectionResult, swapResult] = await Promise.allSettled([projectionPromise, swapPromise]);
  if (swapResult.status === "rejected") throw swapResult.reason;
  // After the swap, the projection run may fail because its schema has a new name. Such an error is ignored.
  if (projectionResult.status === "rejected" && swapResult.value === undefined) throw projectionResult.reason;
  if (swapResult.value !== undefined) await dropSchema(connection, FORMER_SCHEMA, signal);
  return swapResult.value;
}
