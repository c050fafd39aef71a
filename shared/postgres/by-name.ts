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
