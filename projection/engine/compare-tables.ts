import type pg from "pg";
import type { AnyReadModel } from "./read-model.ts";

/** A row that does not match the log. */
export interface Difference {
  table: string;
  key: string[];
  kind: "missing" | "extra" | "changed";
  /** Names of the columns that differ. The values may be personal data and are never included. */
  columns: string[];
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
