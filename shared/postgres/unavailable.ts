import pg from "pg";
import { UnsuitableServerError } from "./find-server.ts";

/**
 * SQLSTATE classes and codes of temporary failures: connection errors (08), missing resources (53), shutdown or
 * statement timeout (57), locks and conflicts (55, 40), a server that became read-only after a failover (25006), and a
 * transaction that was idle for too long (25P03).
 * A refused login (28) is excluded, because a wrong setting causes it.
 */
const TEMPORARY_SQLSTATES = /^(08|53|57|55|40|25006|25P03)/;

const SOCKET_ERROR_CODES = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "ENOENT",
  "EHOSTUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
]);

/** pg's messages if the database is unavailable. These errors have no code. */
const UNAVAILABLE_MESSAGES = /timeout|connection terminated|not queryable|connection error|pool after calling end/i;

/** Returns true if a query failed because the database is unavailable, overloaded or too slow. */
export function isPostgresUnavailable(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isPostgresUnavailable);
  if (error instanceof UnsuitableServerError) return true;
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  if (typeof code === "string")
    return SOCKET_ERROR_CODES.has(code) || (code.length === 5 && TEMPORARY_SQLSTATES.test(code));
  return UNAVAILABLE_MESSAGES.test(error.message);
}

/** Returns true if a statement took longer than its time limit in Postgres. Its transaction is rolled back. */
export function isStatementTimeout(error: unknown): error is pg.DatabaseError {
  return error instanceof pg.DatabaseError && error.code === "57014";
}

/** Returns true if a statement waited too long for a lock in Postgres. Its transaction is rolled back. */
export function isLockTimeout(error: unknown): error is pg.DatabaseError {
  return error instanceof pg.DatabaseError && error.code === "55P03";
}

/**
 * Returns true if Postgres refuses a value, so that a retry cannot succeed: SQLSTATE classes 22 (data exception), 23
 * (integrity constraint violation) and 54 (program limit exceeded).
 */
export function isValueRefused(error: unknown): error is pg.DatabaseError {
  return error instanceof pg.DatabaseError && /^(22|23|54)/.test(error.code ?? "");
}
