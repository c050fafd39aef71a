import type pg from "pg";
import { closeConnection, connectWithoutTimeouts } from "../../shared/postgres/pool.ts";
import type { AnyReadModel } from "./read-model.ts";

/** A row that is not what the log says. */
export interface Difference {
  table: string;
  /** The primary key's values. */
  key: string[];
  kind: "missing" | "extra" | "changed";
  /** Names of the columns that differ; never their values, which may be patients'. */
  columns: string[];
}

const PAGE_SIZE = 2_000;

/**
 * Walks through a read model's table in two schemas, in the order of the primary key.
 *
 * @param live a connection in a transaction, which sees the first schema
 * @param schemas the one that is, and the one that it ought to be
 * @returns how many rows were compared
 */
export async function compareTables(
  pool: pg.Pool,
  live: pg.ClientBase,
  model: AnyReadModel,
  schemas: readonly [string, string],
  onDifference: (difference: Difference) => void,
): Promise<number> {
  const other = await connectWithoutTimeouts(pool);
  try {
    await other.query("BEGIN READ ONLY");
    return await walk(
      model.table,
      rowsOf(live, schemas[0], model),
      rowsOf(other, schemas[1], model),
      onDifference,
    );
  } finally {
    await closeConnection(other);
  }
}

interface Listed {
  key: string[];
  /** All columns, as JSON that Postgres made. */
  row: string;
}

async function walk(
  table: string,
  is: AsyncGenerator<Listed>,
  ought: AsyncGenerator<Listed>,
  onDifference: (difference: Difference) => void,
): Promise<number> {
  let [a, b] = [await next(is), await next(ought)];
  let count = 0;
  while (a || b) {
    count += 1;
    const order = !a ? 1 : !b ? -1 : compareKeys(a.key, b.key);
    if (a && b && order === 0) {
      if (a.row !== b.row)
        onDifference({ table, key: a.key, kind: "changed", columns: differing(a.row, b.row) });
    } else if (a && order < 0) {
      onDifference({ table, key: a.key, kind: "extra", columns: [] });
    } else if (b) {
      onDifference({ table, key: b.key, kind: "missing", columns: [] });
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
  db: pg.ClientBase,
  schema: string,
  { table, primaryKey }: AnyReadModel,
): AsyncGenerator<Listed> {
  const key = primaryKey.map((column) => `t.${column}::text COLLATE "C"`).join(", ");
  const cursor = `compare_${table}`;
  await db.query(
    `DECLARE ${cursor} NO SCROLL CURSOR FOR
     SELECT array[${key}] AS key, to_jsonb(t)::text AS row FROM ${schema}.${table} t ORDER BY ${key}`,
  );
  for (;;) {
    const { rows } = await db.query<Listed>(`FETCH ${PAGE_SIZE} FROM ${cursor}`);
    yield* rows;
    if (rows.length < PAGE_SIZE) break;
  }
  await db.query(`CLOSE ${cursor}`);
}

function compareKeys(a: string[], b: string[]): number {
  for (const [index, part] of a.entries()) {
    const other = b[index] ?? "";
    if (part !== other) return Buffer.compare(Buffer.from(part), Buffer.from(other));
  }
  return 0;
}

function differing(a: string, b: string): string[] {
  const [is, ought] = [JSON.parse(a), JSON.parse(b)] as [Record<string, unknown>, Record<string, unknown>];
  const names = new Set([...Object.keys(is), ...Object.keys(ought)]);
  return [...names].filter((name) => JSON.stringify(is[name]) !== JSON.stringify(ought[name])).sort();
}
