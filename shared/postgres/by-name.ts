/**
 * SQL that orders by a name as people do, whatever the server's own collation: the root collation of Unicode, in which
 * Ö stands beside O, and capitals beside small letters. An index serves the order only if it is declared with it.
 *
 * @param column of type text, perhaps with its table
 */
export function byName(column: string): string {
  return `${column} COLLATE "und-x-icu"`;
}
