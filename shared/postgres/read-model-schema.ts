/**
 * Schema of the read models of this release. A release that changes tables or rows of the read models gives the schema a
 * new name, such as `read_model_2`. Both releases can then run at the same time, each with its own read models.
 */
export const READ_MODEL_SCHEMA = "read_model_1";

/**
 * Returns the SQL expression that sorts by a text column in Unicode's root collation. Ö sorts next to O, and capitals
 * next to small letters, independent of the server's collation. Only an index with the same collation supports this
 * order.
 *
 * @param column text column, optionally prefixed with its table
 */
export function buildNameSortSql(column: string): string {
  return `${column} COLLATE "und-x-icu"`;
}
