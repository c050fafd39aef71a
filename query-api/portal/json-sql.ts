/**
 * Returns SQL for a JSON array of objects, as an aggregate.
 *
 * @param members SQL for the text of one object's members, without braces
 * @param order SQL of the order
 */
export function buildJsonArraySql(members: string, order: string): string {
  return `concat('[', string_agg('{' || ${members} || '}', ',' ORDER BY ${order}), ']')`;
}

/** Returns SQL for a JSON object from the text of its members, or for `null` if there is no such text. */
export function buildJsonObjectSql(members: string): string {
  return `coalesce('{' || ${members} || '}', 'null')`;
}
