/**
 * Returns an SQL aggregate expression that builds a JSON array of objects.
 *
 * @param membersSql SQL expression for one object's members as text, without braces
 * @param orderSql ORDER BY expression of the array
 */
export function buildJsonArraySql(membersSql: string, orderSql: string): string {
  return `'[' || coalesce(string_agg('{' || ${membersSql} || '}', ',' ORDER BY ${orderSql}), '') || ']'`;
}

/** Returns SQL for a JSON object with the given members as text, or for JSON `null` if the text is null. */
export function buildJsonObjectSql(membersSql: string): string {
  return `coalesce('{' || ${membersSql} || '}', 'null')`;
}
