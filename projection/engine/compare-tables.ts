import type pg from "pg";
import { closeConnection, connectWithoutTimeouts } from "../../shared/postgres/pool.ts";
import type { AnyReadModel } from "./read-model.ts";

/** A row that does not match the log. */
export interface Difference {
  table: string;
  /** Values of the primary key. */
  key: string[];
  kind: "missing" | "extra" | "changed";
  /** Names of the columns that differ. The values may be personal data and are never included. */
  columns: string[];
}

const PAGE_SIZE = 2_000;

/**
 * Compares the table of a read model in two schemas, row by row.
 *
 * @param live connection for reading the first schema, in a transaction
 * @param schemas the schema to check, and the schema with the expected rows
 * @returns number of compared rows
 */
export async function compareTables(
  pool: pg.Pool,
  live: pg.ClientBase,
  model: AnyReadModel,
  schemas: readonly [string, string],
  onDifference: (difference: Difference) => void,
): Promise<number> {
  const second = await connectWithoutTimeouts(pool);
  try {
    await second.query("BEGIN READ ONLY");
    return await compareRows(
      model.table,
      readRows(live, schemas[0], model),
      readRows(second, schemas[1], model),
      onDifference,
    );
  } finally {
    await closeConnection(second);
  }
}

interface ListedRow {
  /** Values of the primary key. */
  key: string[];
  /** All columns, as JSON from Postgres. */
  row: string;
}

async function compareRows(
  table: string,
  actual: AsyncGenerator<ListedRow>,
  expected: AsyncGenerator<ListedRow>,
  onDifference: (difference: Difference) => void,
): Promise<number> {
  let [a, b] = [await nextRow(actual), await nextRow(expected)];
  let count = 0;
  while (a || b) {
    count += 1;
    const order = !a ? 1 : !b ? -1 : compareKeys(a.key, b.key);
    if (a && b && order === 0) {
      if (a.row !== b.row)
        onDifference({ table, key: a.key, kind: "changed", columns: findChangedColumns(a.row, b.row) });
    } else if (a && order < 0) {
      onDifference({ table, key: a.key, kind: "extra", columns: [] });
    } else if (b) {
      onDifference({ table, key: b.key, kind: "missing", columns: [] });
    }
    [a, b] = [order <= 0 ? await nextRow(actual) : a, order >= 0 ? await nextRow(expected) : b];
  }
  return count;
}

async function nextRow(rows: AsyncGenerator<ListedRow>): Promise<ListedRow | undefined> {
  const result = await rows.next();
  return result.done ? undefined : result.value;
}

/** Reads all rows of a table in pages, ordered by the text of the primary key. */
async function* readRows(
  db: pg.ClientBase,
  schema: string,
  { table, primaryKey }: AnyReadModel,
): AsyncGenerator<ListedRow> {
  const key = primaryKey.map((column) => `t.${column}::text COLLATE "C"`).join(", ");
  const cursor = `compare_${table}`;
  await db.query(
    `DECLARE ${cursor} NO SCROLL CURSOR FOR
     SELECT array[${key}] AS key, to_jsonb(t)::text AS row FROM ${schema}.${table} t ORDER BY ${key}`,
  );
  for (;;) {
    const { rows } = await db.query<ListedRow>(`FETCH ${PAGE_SIZE} FROM ${cursor}`);
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

function findChangedColumns(a: string, b: string): string[] {
  const [actual, expected] = [JSON.parse(a), JSON.parse(b)] as [Record<string, unknown>, Record<string, unknown>];
  const names = new Set([...Object.keys(actual), ...Object.keys(expected)]);
  return [...names].filter((name) => JSON.stringify(actual[name]) !== JSON.stringify(expected[name])).sort();
}
