/**
 * SQLSTATE classes and codes that say «not now»: connection trouble (08), resources (53), operator's intervention
 * such as shutdown or a timed-out statement (57), object in use or a lost lock race (55, 40), a server that only reads
 * since another one leads now (25006). A refused log-in (28) is not among them: that is a wrong setting.
 */
const UNAVAILABLE_STATES = /^(08|53|57|55|40|25006)/;

const SOCKET_ERRORS = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "ENOENT",
  "EHOSTUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
]);

/** pg's own words for it, which carry no code. */
const CLIENT_MESSAGES =
  /timeout|connection terminated|not queryable|connection error|pool after calling end/i;

/** Whether a query failed because the database is out of reach, overloaded or too slow, rather than by our fault. */
export function isPostgresUnavailable(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isPostgresUnavailable);
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  if (typeof code === "string")
    return SOCKET_ERRORS.has(code) || (code.length === 5 && UNAVAILABLE_STATES.test(code));
  return CLIENT_MESSAGES.test(error.message);
}
