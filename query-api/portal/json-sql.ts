/**
 * Returns an SQL aggregate expression that builds the elements of a JSON array of objects, without its brackets. The
 * result is null if there are no objects. The caller adds the brackets with `concat`, which ignores null. The operator
 * `||` would copy a long list each time.
 *
 * @param membersSql SQL expression for one object's members as text, without braces
 * @param orderSql ORDER BY expression of the array
 */
export function buildJsonElementsSql(membersSql: string, orderSql: string): string {
  return `string_agg('{' || ${membersSql} || '}', ',' ORDER BY ${orderSql})`;
}

/** Returns SQL for a JSON object with the given members as text, or for JSON `null` if the text is null. */
export function buildJsonObjectSql(membersSql: string): string {
  return `coalesce('{' || ${membersSql} || '}', 'null')`;
}
