/**
 * Returns SQL that sorts by a name as people expect, with Unicode's root collation: Ö sorts next to O, and capitals next to
 * small letters. It does not depend on the collation of the server. An index helps only if it has the same collation.
 *
 * @param column text column, optionally with its table
 */
export function byName(column: string): string {
  return `${column} COLLATE "und-x-icu"`;
}
