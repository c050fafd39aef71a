/**
 * Returns an SQL aggregate expression that builds a JSON array of objects.
 *
 * @param members SQL expression for one object's members as text, without braces
 * @param order ORDER BY expression of the array
 */
export function buildJsonArraySql(members: string, order: string): string {
  return `'[' || coalesce(string_agg('{' || ${members} || '}', ',' ORDER BY ${order}), '') || ']'`;
}

/** Returns SQL for a JSON object with the given members as text, or for JSON `null` if the text is null. */
export function buildJsonObjectSql(members: string): string {
  return `coalesce('{' || ${members} || '}', 'null')`;
}
