import pg from "pg";
import { EventSchemaError } from "../domain/events/stored-event.ts";
import { DataKeyError, KeyStoreUnavailableError } from "../personal-data/data-keys.ts";
import { UnsuitableServerError } from "../postgres/find-server.ts";

/** Thrown if a single item, such as an event, cannot be handled although the servers respond. */
export class ItemError extends Error {}

/** Thrown if a loop must stop, because a retry cannot succeed, for example with the wrong release, key or log. */
export class StopError extends Error {}

/**
 * Meaning of a failure for a loop:
 *
 * - `server`: a server is unavailable or overloaded. The loop waits and tries again.
 * - `slow`: a statement timed out. The loop tries fewer items, to find out if an item is the cause.
 * - `item`: an item is the cause. The loop passes the item to `Work.setAside` and continues with the other items.
 * - `stop`: the loop ends until an operator has acted or the original log is back.
 */
export type FailureKind = "server" | "slow" | "item" | "stop";

/** Classifies a failure. An unknown error counts as a failure of a server, so that no item is skipped. */
export function classify(error: unknown): FailureKind {
  if (error instanceof ItemError || error instanceof EventSchemaError || isValueRefused(error)) return "item";
  if (error instanceof StopError || error instanceof DataKeyError || hasSqlState(error, WRONG_RELEASE)) return "stop";
  return isStatementTimeout(error) ? "slow" : "server";
}

/** SQLSTATE classes of unsupported features (0A), unknown schemas (3F), and unknown names or missing rights (42). */
const WRONG_RELEASE = /^(0A|3F|42)/;

/**
 * Temporary failures: connection errors (08), missing resources (53), shutdown or statement timeout (57), locks and
 * conflicts (55, 40), a server that became read-only after a failover (25006), and a transaction that was idle for too
 * long (25P03). A refused login (28) is excluded, because a wrong setting causes it.
 */
const TEMPORARY = /^(08|53|57|55|40|25006|25P03)/;

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

/** pg's messages for a late response or connection. These errors have no code. */
const TIMEOUT_MESSAGES = /Query read timeout|timeout exceeded when trying to connect/;

function hasSqlState(error: unknown, sqlState: RegExp): error is pg.DatabaseError {
  return error instanceof pg.DatabaseError && sqlState.test(error.code ?? "");
}

/** Returns true if a query failed because the database is unavailable, overloaded or too slow. */
export function isPostgresUnavailable(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isPostgresUnavailable);
  if (error instanceof UnsuitableServerError || error instanceof KeyStoreUnavailableError) return true;
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  if (typeof code === "string") return SOCKET_ERROR_CODES.has(code) || (code.length === 5 && TEMPORARY.test(code));
  return UNAVAILABLE_MESSAGES.test(error.message);
}

/**
 * Returns true if the database may only have been too slow for a statement. The statement or the connection timed out,
 * or the statement waited too long for a lock or was cancelled to end a conflict.
 */
export function isPostgresSlow(error: unknown): boolean {
  if (hasSqlState(error, /^(57014|55P03|40P01|40001)$/)) return true;
  return error instanceof Error && !("code" in error) && TIMEOUT_MESSAGES.test(error.message);
}

/** Returns true if a statement took longer than its time limit in Postgres. Its transaction is rolled back. */
export function isStatementTimeout(error: unknown): error is pg.DatabaseError {
  return hasSqlState(error, /^57014$/);
}

/** Returns true if a statement waited too long for a lock in Postgres. Its transaction is rolled back. */
export function isLockTimeout(error: unknown): error is pg.DatabaseError {
  return hasSqlState(error, /^55P03$/);
}

/**
 * Returns true if Postgres refuses a value, so that a retry cannot succeed: data exception (22), integrity constraint
 * violation (23) or program limit exceeded (54). The message may quote the value.
 */
export function isValueRefused(error: unknown): error is pg.DatabaseError {
  return hasSqlState(error, /^(22|23|54)/);
}

/** Returns true if Postgres refused a statement because an earlier statement of its transaction failed. */
export function isInFailedTransaction(error: unknown): boolean {
  return hasSqlState(error, /^25P02$/);
}

/** Returns true if a schema or table is missing. The projection service of this release creates it. */
export function isTableMissing(error: unknown): boolean {
  return hasSqlState(error, /^(3F000|42P01)$/);
}

/** Returns true if a column is missing. `clinic projection migrate` of this release creates it. */
export function isColumnMissing(error: unknown): boolean {
  return hasSqlState(error, /^42703$/);
}

/** Returns true if the role lacks a right for the statement. */
export function isRightMissing(error: unknown): boolean {
  return hasSqlState(error, /^42501$/);
}

/**
 * Returns true if a query failed because the database has no read models of this release yet, or the role has no rights
 * on them. The projection service creates the tables and grants the rights when it starts.
 */
export function areReadModelsMissing(error: unknown): boolean {
  return isTableMissing(error) || isRightMissing(error);
}
