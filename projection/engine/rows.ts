import type { ClientBase } from "pg";
import { ItemError } from "../../shared/runtime/failures.ts";
import type { AnyReadModel, ColumnType, Row } from "./read-model.ts";

/** Bulk reads and writes of rows. A statement sends one array for each column. */

/** Read models in a schema, with the connection that reads and writes them. */
export interface Tables {
  client: ClientBase;
  schema: string;
  models: readonly AnyReadModel[];
}

/** A row cannot be converted for Postgres. The cause is one of the last events that changed the row. */
export class RowError extends ItemError {
  override readonly name = "RowError";
}

export async function loadRows(
  { client, schema }: Omit<Tables, "models">,
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
  { client, schema }: Omit<Tables, "models">,
  model: AnyReadModel,
  rows: readonly Row[],
): Promise<void> {
  if (rows.length === 0) return;
  const storedColumns = Object.entries(model.columns);
  const renderedColumns = Object.entries(model.renderedColumns ?? {});
  const columns = [...storedColumns, ...renderedColumns.map(([name]) => [name, "text"] as const)];
  const columnNames = columns.map(([name]) => name);
  const nonKeyNames = columnNames.filter((name) => !model.primaryKey.includes(name));
  const setSql = nonKeyNames.map((name) => `${name} = excluded.${name}`).join(", ");
  const columnValues = () => [
    ...storedColumns.map(([name, type]) => toArrayLiteral(rows.map((row) => toText(row[name], type)))),
    ...renderedColumns.map(([, render]) => toArrayLiteral(rows.map((row) => formatMembers(render(row))))),
  ];
  await client.query({
    name: `upsert ${schema}.${model.table}`,
    text: `INSERT INTO ${schema}.${model.table} (${columnNames.join(", ")})
      SELECT * FROM unnest(${columns.map(([, type], index) => `$${index + 1}::${type}[]`).join(", ")})
      ON CONFLICT (${model.primaryKey.join(", ")}) DO UPDATE SET ${setSql}`,
    values: convertOrThrow(model, columnValues),
  });
}

/** @throws {RowError} for example if a projector wrote a value that cannot be rendered, or the text is too long */
function convertOrThrow<Value>({ table }: AnyReadModel, convert: () => Value): Value {
  try {
    return convert();
  } catch (cause) {
    throw new RowError(`read model ${table} cannot write a row`, { cause });
  }
}

function formatMembers(object: object): string {
  return JSON.stringify(object).slice(1, -1);
}

export async function deleteRows(
  { client, schema }: Omit<Tables, "models">,
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

function buildKeyTableSql(model: AnyReadModel, condition: "ON" | "WHERE" = "ON"): string {
  const arraysSql = model.primaryKey.map((name, index) => `$${index + 1}::${model.columns[name]}[]`).join(", ");
  const matchSql = model.primaryKey.map((name) => `t.${name} = k.${name}`).join(" AND ");
  return `unnest(${arraysSql}) AS k (${model.primaryKey.join(", ")}) ${condition} ${matchSql}`;
}

function toKeyColumns(model: AnyReadModel, keys: readonly (readonly string[])[]): string[] {
  return model.primaryKey.map((_, index) => toArrayLiteral(keys.map((key) => key[index] ?? null)));
}

/**
 * Returns SQL that reads a column in the format that projectors write. Otherwise, unchanged rows would seem changed.
 */
function toColumnSql(column: string, type: ColumnType): string {
  if (type === "timestamptz") return `rfc3339(${column})`;
  return type === "bigint" ? `${column}::text` : column;
}

function toText(value: unknown, type: ColumnType): string | null {
  if (value === null || value === undefined) return null;
  return type === "json" || type === "jsonb" ? JSON.stringify(value) : String(value);
}

const ESCAPED_CHARACTER_PATTERN = /["\\]/;

/**
 * Formats an array as text for Postgres. The driver does the same for any kind of value, but takes longer.
 *
 * @param values elements as text; null for NULL
 */
export function toArrayLiteral(values: readonly (string | null)[]): string {
  const elements = values.map((value) => {
    if (value === null) return "NULL";
    return `"${ESCAPED_CHARACTER_PATTERN.test(value) ? value.replace(/["\\]/g, "\\$&") : value}"`;
  });
  return `{${elements.join(",")}}`;
}
