/**
 * Returns an SQL aggregate expression that builds a JSON array of objects.
 *
 * @param members SQL expression for one object's members as text, without braces
 * @param order ORDER BY expression of the array
 */
export function buildJsonArraySql(members: string, order: string): string {
  return `concat('[', string_agg('{' || ${members} || '}', ',' ORDER BY ${order}), ']')`;
}

/** Returns SQL for a JSON object from the text of its members, or for `null` if there is no such text. */
export function buildJsonObjectSql(members: string): string {
  return `coalesce('{' || ${members} || '}', 'null')`;
}
