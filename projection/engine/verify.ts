import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import type { Logger } from "../../shared/runtime/logger.ts";
import { READ_MODEL_SCHEMA, readModelDdl } from "./ddl.ts";
import { type ProjectionProgress, readCheckpoint, runProjection } from "./projection.ts";
import type { AnyReadModel } from "./read-model.ts";

export interface VerifyOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  models: readonly AnyReadModel[];
  logger: Logger;
  onProgress(progress: ProjectionProgress): void;
  onDifference(difference: Difference): void;
}

/** A row that is not what the log says. */
export interface Difference {
  table: string;
  /** The primary key's values. */
  key: string[];
  kind: "missing" | "extra" | "changed";
  /** Names of the columns that differ; never their values, which may be patients'. */
  columns: string[];
}

const SCRATCH_SCHEMA = "read_model_verify";
const PAGE = 2_000;

/**
 * Compares the read models that serve with what the log says: folds the log up to the position that they reflect into
 * tables of its own, and goes through both, row by row. Live events go on meanwhile: what is compared is the state at
 * one moment.
 *
 * @returns the position, and how many rows were compared
 */
export async function verify(
  options: VerifyOptions,
  signal: AbortSignal,
): Promise<{ position: bigint; rows: number; differences: number }> {
  const { pool, models } = options;
  const live = await pool.connect();
  try {
    await live.query("SET statement_timeout = 0");
    // One snapshot for all that follows: rows and checkpoint are of the same moment.
    await live.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    const position = await readCheckpoint(live, READ_MODEL_SCHEMA);
    await pool.query(`DROP SCHEMA IF EXISTS ${SCRATCH_SCHEMA} CASCADE`);
    await pool.query(readModelDdl(models, SCRATCH_SCHEMA));
    await runProjection({ ...options, schema: SCRATCH_SCHEMA, until: position }, signal);
    let [rows, differences] = [0, 0];
    const tell = (difference: Difference) => {
      differences += 1;
      options.onDifference(difference);
    };
    for (const model of models) {
      if (signal.aborted) break;
      rows += await compare(model, live, pool, tell);
    }
    return { position, rows, differences };
  } finally {
    live.release(true);
    await pool.query(`DROP SCHEMA IF EXISTS ${SCRATCH_SCHEMA} CASCADE`);
  }
}

interface Listed {
  key: string[];
  row: Record<string, unknown>;
}

/** Walks through both tables in the order of the primary key. */
async function compare(
  model: AnyReadModel,
  live: pg.ClientBase,
  pool: pg.Pool,
  tell: (difference: Difference) => void,
): Promise<number> {
  const { table } = model;
  const [is, ought] = [rowsOf(live, READ_MODEL_SCHEMA, model), rowsOf(pool, SCRATCH_SCHEMA, model)];
  let [a, b] = [await next(is), await next(ought)];
  let count = 0;
  while (a || b) {
    count += 1;
    const order = !a ? 1 : !b ? -1 : compareKeys(a.key, b.key);
    if (a && b && order === 0) {
      const columns = differing(a.row, b.row);
      if (columns.length > 0) tell({ table, key: a.key, kind: "changed", columns });
    } else if (a && order < 0) {
      tell({ table, key: a.key, kind: "extra", columns: [] });
    } else if (b) {
      tell({ table, key: b.key, kind: "missing", columns: [] });
    }
    [a, b] = [order <= 0 ? await next(is) : a, order >= 0 ? await next(ought) : b];
  }
  return count;
}

async function next(rows: AsyncGenerator<Listed>): Promise<Listed | undefined> {
  const result = await rows.next();
  return result.done ? undefined : result.value;
}

/** All rows of a table in the order of their key's text, a page at a time. */
async function* rowsOf(
  db: pg.ClientBase | pg.Pool,
  schema: string,
  { table, primaryKey }: AnyReadModel,
): AsyncGenerator<Listed> {
  const key = primaryKey.map((column) => `t.${column}::text COLLATE "C"`);
  const parameters = primaryKey.map((_, index) => `$${index + 1}`);
  let after: string[] | undefined;
  for (;;) {
    const condition: string = after ? `WHERE (${key.join(", ")}) > (${parameters.join(", ")})` : "";
    const { rows }: { rows: Listed[] } = await db.query<Listed>(
      `SELECT array[${key.join(", ")}] AS key, to_jsonb(t) AS row FROM ${schema}.${table} t ${condition}
       ORDER BY ${key.join(", ")} LIMIT ${PAGE}`,
      after ?? [],
    );
    yield* rows;
    if (rows.length < PAGE) return;
    after = rows.at(-1)?.key;
  }
}

function compareKeys(a: string[], b: string[]): number {
  for (const [index, part] of a.entries()) {
    const other = b[index] ?? "";
    if (part !== other) return Buffer.compare(Buffer.from(part), Buffer.from(other));
  }
  return 0;
}

function differing(a: Record<string, unknown>, b: Record<string, unknown>): string[] {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].filter((name) => JSON.stringify(a[name]) !== JSON.stringify(b[name])).sort();
}
