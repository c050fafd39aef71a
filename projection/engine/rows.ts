import type { ClientBase } from "pg";
import type { AnyReadModel, ColumnType, Row } from "./read-model.ts";

/** Bulk reads and writes of rows. A statement sends one text array for each column, and Postgres casts the values. */

/** Loads the existing rows of the given primary keys. */
export async function loadRows(
  client: ClientBase,
  schema: string,
  model: AnyReadModel,
  keys: readonly (readonly string[])[],
): Promise<Row[]> {
  const columns = Object.entries(model.columns).map(([name, type]) => `${toColumnSql(`t.${name}`, type)} AS ${name}`);
  const { rows } = await client.query<Row>({
    name: `load ${schema}.${model.table}`,
    text: `SELECT ${columns.join(", ")} FROM ${schema}.${model.table} t JOIN ${buildKeyTableSql(model)}`,
    values: toKeyColumns(model, keys),
  });
  return rows;
}

export async function upsertRows(
  client: ClientBase,
  schema: string,
  model: AnyReadModel,
  rows: readonly Row[],
): Promise<void> {
  if (rows.length === 0) return;
  const stored = Object.entries(model.columns);
  const rendered = Object.entries(model.rendered ?? {});
  const columns = [...stored, ...rendered.map(([name]) => [name, "text"] as const)];
  const names = columns.map(([name]) => name);
  const others = names.filter((name) => !model.primaryKey.includes(name));
  const set = others.map((name) => `${name} = excluded.${name}`).join(", ");
  await client.query({
    name: `upsert ${schema}.${model.table}`,
    text: `INSERT INTO ${schema}.${model.table} (${names.join(", ")})
      SELECT ${columns.map(([name, type]) => `r.${name}::${type}`).join(", ")}
      FROM unnest(${columns.map((_, index) => `$${index + 1}::text[]`).join(", ")}) AS r (${names.join(", ")})
      ON CONFLICT (${model.primaryKey.join(", ")}) DO UPDATE SET ${set}`,
    values: [
      ...stored.map(([name, type]) => rows.map((row) => toText(row[name], type))),
      ...rendered.map(([, render]) => rows.map((row) => membersOf(render(row)))),
    ],
  });
}

/** Returns the JSON of an object without its braces. */
function membersOf(object: object): string {
  return JSON.stringify(object).slice(1, -1);
}

export async function deleteRows(
  client: ClientBase,
  schema: string,
  model: AnyReadModel,
  keys: readonly (readonly string[])[],
): Promise<void> {
  if (keys.length === 0) return;
  await client.query({
    name: `delete ${schema}.${model.table}`,
    text: `DELETE FROM ${schema}.${model.table} t USING ${buildKeyTableSql(model, "WHERE")}`,
    values: toKeyColumns(model, keys),
  });
}

/** Returns SQL that joins the keys as a table `k` with the read model as `t`. */
function buildKeyTableSql(model: AnyReadModel, condition: "ON" | "WHERE" = "ON"): string {
  const arrays = model.primaryKey.map((_, index) => `$${index + 1}::text[]`).join(", ");
  const match = model.primaryKey.map((name) => `t.${name} = k.${name}::${model.columns[name]}`).join(" AND ");
  return `unnest(${arrays}) AS k (${model.primaryKey.join(", ")}) ${condition} ${match}`;
}

function toKeyColumns(model: AnyReadModel, keys: readonly (readonly string[])[]): unknown[][] {
  return model.primaryKey.map((_, index) => keys.map((key) => key[index]));
}

/**
 * Returns SQL that reads a column in the format that projectors write. In any other format, unchanged rows would seem
 * to differ.
 */
function toColumnSql(column: string, type: ColumnType): string {
  if (type === "timestamptz") return `rfc3339(${column})`;
  return type === "bigint" ? `${column}::text` : column;
}

function toText(value: unknown, type: ColumnType): string | null {
  if (value === null || value === undefined) return null;
  return type === "jsonb" ? JSON.stringify(value) : String(value);
}
