/**
 * SQLSTATE classes and codes that say «not now»: connection trouble (08), resources (53), operator's intervention
 * such as shutdown or a timed-out statement (57), object in use or a lost lock race (55, 40), a server that only reads
 * since another one leads now (25006). A refused log-in (28) is not among them: that is a wrong setting.
 */
const NOT_NOW = /^(08|53|57|55|40|25006)/;

const SOCKET = new Set([
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
const CLIENT = /timeout|connection terminated|not queryable|connection error|pool after calling end/i;

/** Whether a query failed because the database is out of reach, overloaded or too slow, rather than by our fault. */
export function isPostgresUnavailable(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isPostgresUnavailable);
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  if (typeof code === "string") return SOCKET.has(code) || (code.length === 5 && NOT_NOW.test(code));
  return CLIENT.test(error.message);
}
