import type pg from "pg";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { readCheckpoint } from "../checkpoints/checkpoint.ts";
import { requireSameLog } from "../checkpoints/same-log.ts";
import { readQuarantinedStreams } from "../quarantine/quarantined-streams.ts";
import { OTHER_RELEASE } from "../roles/role.ts";
import { buildTablesDdl, computeFingerprint } from "./ddl.ts";
import { withMaintenanceLock } from "./maintenance.ts";
import { runProjection } from "./projection.ts";
import type { ProjectionOptions } from "./projection-options.ts";
import type { AnyReadModel } from "./read-model.ts";

/** A row that does not match the log. */
export interface Difference {
  table: string;
  key: string[];
  kind: "missing" | "extra" | "changed";
  /** Names of the columns that differ. The values may be personal data and are never included. */
  columns: string[];
}

export interface VerifyOptions
  extends Pick<ProjectionOptions, "client" | "pool" | "dataKeys" | "readLog" | "models" | "logger" | "onProgress"> {
  onDifference(difference: Difference): void;
}

export const SCRATCH_SCHEMA = `${READ_MODEL_SCHEMA}_verify`;

/** Schema of a copy of the read models, as of the position up to which the log is folded. */
const COPY_SCHEMA = `${READ_MODEL_SCHEMA}_copy`;

/**
 * Compares the read models with the log. Copies the read models, folds the log up to their position into separate
 * tables, and compares these tables with the copy row by row. Live events do not affect the comparison. Events that the
 * read models skipped are skipped here too.
 *
 * @returns log position of the copy, number of compared rows, number of differences, and the quarantined streams
 * @throws {StartError} if a rebuild, prune, scrub or another verify is running, or the read models belong to another release
 * @throws {DifferentLogError}
 * @throws {ProjectionError} for an event that cannot be processed
 */
export async function verify(options: VerifyOptions, signal: AbortSignal) {
  const { pool, models } = options;
  return withMaintenanceLock(pool, async (connection) => {
    const dropTables = () => pool.query(`DROP SCHEMA IF EXISTS ${SCRATCH_SCHEMA}, ${COPY_SCHEMA} CASCADE`);
    try {
      await dropTables();
      await requireSameLog(options);
      const { position, quarantinedStreams } = await copyTables(connection, models);
      await runProjection(
        { ...options, schema: SCRATCH_SCHEMA, endPosition: position, fillsUnusedTables: true },
        signal,
      );
      let [rows, differenceCount] = [0, 0];
      const onDifference = (difference: Difference) => {
        differenceCount += 1;
        options.onDifference(difference);
      };
      await connection.query("BEGIN READ ONLY");
      for (const model of models) {
        if (signal.aborted) break;
        rows += await compareTables(connection, model, [COPY_SCHEMA, SCRATCH_SCHEMA], onDifference);
      }
      return { position, rows, differenceCount, quarantinedStreams };
    } finally {
      // An open transaction would keep the tables locked.
      await connection.query("ROLLBACK").catch(() => undefined);
      await dropTables();
    }
  });
}

/** Copies the read models. Also creates empty tables for a second fold of the log, and copies the quarantined streams. */
async function copyTables(connection: pg.ClientBase, models: readonly AnyReadModel[]) {
  // Rows and checkpoint must come from one snapshot.
  await connection.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  const { position, fingerprint } = await readCheckpoint(connection, READ_MODEL_SCHEMA);
  if (fingerprint !== computeFingerprint(models)) {
    throw new StartError(`${OTHER_RELEASE}: verify them with that release, or rebuild them with this release.`);
  }
  const quarantinedStreams = await readQuarantinedStreams(connection, READ_MODEL_SCHEMA);
  await connection.query(`CREATE SCHEMA ${COPY_SCHEMA}`);
  for (const { table } of models)
    await connection.query(`CREATE UNLOGGED TABLE ${COPY_SCHEMA}.${table} AS TABLE ${READ_MODEL_SCHEMA}.${table}`);
  await connection.query(
    `${buildTablesDdl(models, SCRATCH_SCHEMA)}
     INSERT INTO ${SCRATCH_SCHEMA}.quarantined_stream SELECT * FROM ${READ_MODEL_SCHEMA}.quarantined_stream`,
  );
  await connection.query("COMMIT");
  return { position, quarantinedStreams };
}

/** Number of differing rows that are read at once. */
const PAGE_SIZE = 2_000;

/**
 * Compares the table of a read model in two schemas.
 *
 * @param connection connection in a transaction
 * @param schemas the schema to check, and the schema with the expected rows
 * @returns number of compared rows
 */
export async function compareTables(
  connection: pg.ClientBase,
  { table, primaryKey }: AnyReadModel,
  [actualSchema, expectedSchema]: readonly [string, string],
  onDifference: (difference: Difference) => void,
): Promise<number> {
  const tablesSql = `${actualSchema}.${table} a FULL JOIN ${expectedSchema}.${table} e USING (${primaryKey.join(", ")})`;
  await connection.query(
    `DECLARE differences NO SCROLL CURSOR FOR
     SELECT '${table}' AS table, ARRAY[${primaryKey.map((column) => `${column}::text`).join(", ")}] AS key,
            CASE WHEN a IS NULL THEN 'missing' WHEN e IS NULL THEN 'extra' ELSE 'changed' END AS kind,
            ARRAY(SELECT name FROM jsonb_each(to_jsonb(a)) m (name, value) JOIN jsonb_each(to_jsonb(e)) n (name, value)
                   USING (name) WHERE m.value <> n.value ORDER BY name) AS columns
       FROM ${tablesSql} WHERE to_jsonb(a) IS DISTINCT FROM to_jsonb(e)`,
  );
  for (;;) {
    const { rows } = await connection.query<Difference>(`FETCH ${PAGE_SIZE} FROM differences`);
    rows.forEach(onDifference);
    if (rows.length < PAGE_SIZE) break;
  }
  await connection.query("CLOSE differences");
  const { rows } = await connection.query<{ count: bigint }>(`SELECT count(*) FROM ${tablesSql}`);
  return Number(rows[0]?.count);
}
