import type pg from "pg";
import { closeConnection, connectWithoutTimeouts } from "../../shared/postgres/pool.ts";
import type { AnyReadModel, Row } from "./read-model.ts";

/** A row that does not match the log. */
export interface Difference {
  table: string;
  key: string[];
  kind: "missing" | "extra" | "changed";
  /** Names of the columns that differ. The values may be personal data and are never included. */
  columns: string[];
}

const PAGE_SIZE = 2_000;

/**
 * Compares the table of a read model in two schemas, row by row.
 *
 * @param liveConnection connection for reading the first schema, in a transaction
 * @param schemas the schema to check, and the schema with the expected rows
 * @returns number of compared rows
 */
export async function compareTables(
  pool: pg.Pool,
  liveConnection: pg.ClientBase,
  model: AnyReadModel,
  schemas: readonly [string, string],
  onDifference: (difference: Difference) => void,
): Promise<number> {
  const secondConnection = await connectWithoutTimeouts(pool);
  try {
    await secondConnection.query("BEGIN READ ONLY");
    return await compareRows(
      model.table,
      readRows(liveConnection, schemas[0], model),
      readRows(secondConnection, schemas[1], model),
      onDifference,
    );
  } finally {
    await closeConnection(secondConnection);
  }
}

interface ListedRow {
  key: string[];
  /** All columns, as JSON from Postgres. */
  row: string;
}

async function compareRows(
  table: string,
  actualRows: AsyncGenerator<ListedRow>,
  expectedRows: AsyncGenerator<ListedRow>,
  onDifference: (difference: Difference) => void,
): Promise<number> {
  let [actualRow, expectedRow] = [await nextRow(actualRows), await nextRow(expectedRows)];
  let rowCount = 0;
  while (actualRow || expectedRow) {
    rowCount += 1;
    const order = !actualRow ? 1 : !expectedRow ? -1 : compareKeys(actualRow.key, expectedRow.key);
    if (actualRow && expectedRow && order === 0) {
      if (actualRow.row !== expectedRow.row) {
        const columns = findChangedColumns(actualRow.row, expectedRow.row);
        onDifference({ table, key: actualRow.key, kind: "changed", columns });
      }
    } else if (actualRow && order < 0) {
      onDifference({ table, key: actualRow.key, kind: "extra", columns: [] });
    } else if (expectedRow) {
      onDifference({ table, key: expectedRow.key, kind: "missing", columns: [] });
    }
    if (order <= 0) actualRow = await nextRow(actualRows);
    if (order >= 0) expectedRow = await nextRow(expectedRows);
  }
  return rowCount;
}

async function nextRow(rows: AsyncGenerator<ListedRow>): Promise<ListedRow | undefined> {
  const iteratorResult = await rows.next();
  return iteratorResult.done ? undefined : iteratorResult.value;
}

/** Reads in pages, ordered by the text of the primary key. */
async function* readRows(
  db: pg.ClientBase,
  schema: string,
  { table, primaryKey }: AnyReadModel,
): AsyncGenerator<ListedRow> {
  const key = primaryKey.map((column) => `t.${column}::text COLLATE "C"`).join(", ");
  const cursorName = `compare_${table}`;
  await db.query(
    `DECLARE ${cursorName} NO SCROLL CURSOR FOR
     SELECT array[${key}] AS key, to_jsonb(t)::text AS row FROM ${schema}.${table} t ORDER BY ${key}`,
  );
  for (;;) {
    const { rows } = await db.query<ListedRow>(`FETCH ${PAGE_SIZE} FROM ${cursorName}`);
    yield* rows;
    if (rows.length < PAGE_SIZE) break;
  }
  await db.query(`CLOSE ${cursorName}`);
}

function compareKeys(actualKey: string[], expectedKey: string[]): number {
  for (const [index, actualValue] of actualKey.entries()) {
    const expectedValue = expectedKey[index] ?? "";
    if (actualValue !== expectedValue) return Buffer.compare(Buffer.from(actualValue), Buffer.from(expectedValue));
  }
  return 0;
}

function findChangedColumns(actualJson: string, expectedJson: string): string[] {
  const [actualRow, expectedRow] = [JSON.parse(actualJson), JSON.parse(expectedJson)] as [Row, Row];
  const columns = new Set([...Object.keys(actualRow), ...Object.keys(expectedRow)]);
  return [...columns].filter((name) => JSON.stringify(actualRow[name]) !== JSON.stringify(expectedRow[name])).sort();
}
