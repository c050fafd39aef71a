import type pg from "pg";
import { createUnavailableError } from "../../shared/http/api-error.ts";
import type { RequestState } from "../../shared/http/app.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { isTableMissing } from "../../shared/runtime/failures.ts";
import { TimeoutError, withTimeout } from "../../shared/runtime/timeout.ts";

/** Named statement, which Postgres prepares once per connection. */
export interface Statement {
  name: string;
  text: string;
}

/**
 * Runs a statement that returns exactly one row. The read fails at the deadline, but the statement keeps its connection
 * until Postgres cancels the statement.
 *
 * @param deadline time at which the read fails, as a value of `performance.now()`
 * @param caller id of the user or application; the reads of one caller leave a connection to others, if the pool has
 *   several
 * @throws {ApiError} 503 `data_source_unavailable` at the deadline, or if the read models do not exist yet
 */
export type ReadRow = <Row extends object>(
  statement: Statement,
  values: readonly unknown[],
  deadline: number,
  caller?: string,
) => Promise<Row>;

export interface ResponseRow {
  /** Error code of the refusal; null if the request is permitted. */
  refusal: string | null;
  /** JSON object. */
  body: string;
}

export interface QueryState extends RequestState {
  deadline: number;
}

/**
 * Time limit for all reads of one request together, including the wait for a connection. The limit is below three
 * seconds, because callers must learn within three seconds that the database is unavailable.
 */
export const READ_TIMEOUT_MS = 2_600;

export function createRowReader(pool: pg.Pool): ReadRow {
  // A running statement keeps its connection. So a caller leaves one connection, on which others can read at once.
  const runForCaller = limitCallerReads(Math.max(1, (pool.options.max ?? 1) - 1));
  return async (statement, values, deadline, caller) => {
    const getTimeLeftMs = () => Math.max(0, deadline - performance.now());
    const query = async () => {
      // The request of a read that waited too long has already failed.
      if (getTimeLeftMs() === 0) throw new TimeoutError("the read could not start before its deadline");
      return pool.query({ ...statement, values: [...values] });
    };
    const queryPromise = caller === undefined ? query() : runForCaller(caller, query);
    const { rows } = await withTimeout(getTimeLeftMs(), queryPromise).catch((error: unknown) => {
      const isUnavailable = error instanceof TimeoutError || isTableMissing(error);
      throw isUnavailable ? createUnavailableError("data_source_unavailable", error) : error;
    });
    const [row] = rows;
    if (!row || rows.length > 1)
      throw new Error(`Statement ${statement.name} returned ${rows.length} rows instead of one.`);
    return row;
  };
}

/** Runs a read as soon as the caller has fewer running reads than the limit. Throws the error of the read. */
type RunForCaller = <Result>(caller: string, read: () => Promise<Result>) => Promise<Result>;

/**
 * Limits how many reads of one caller run at once. Otherwise the slow reads of one caller could occupy all connections
 * to Postgres, and the reads of all other callers would fail.
 */
export function limitCallerReads(maxRunningReads: number): RunForCaller {
  /** Number of running reads of each caller, and functions that start the waiting reads, in order of arrival. */
  const readsByCaller = new Map<string, { runningCount: number; waitingReads: (() => void)[] }>();
  return async (caller, read) => {
    const reads = readsByCaller.get(caller) ?? { runningCount: 0, waitingReads: [] };
    readsByCaller.set(caller, reads);
    if (reads.runningCount < maxRunningReads) reads.runningCount += 1;
    else await new Promise<void>((resolve) => reads.waitingReads.push(resolve));
    try {
      return await read();
    } finally {
      const startNext = reads.waitingReads.shift();
      if (startNext) startNext();
      else reads.runningCount -= 1;
      if (reads.runningCount === 0) readsByCaller.delete(caller);
    }
  };
}

/** The read models of this release are incomplete, because they have never reached the end of the log. */
export class NotFilledError extends Error {
  override readonly name = "NotFilledError";
}

const filledStatement = { name: "filled", text: `SELECT filled FROM ${READ_MODEL_SCHEMA}.checkpoint` };

/**
 * Restricts reads to filled read models. Until the read models of this release are filled, each read fails with 503
 * `data_source_unavailable`, caused by a {@link NotFilledError}.
 */
export function requireFilledReadModels(readRow: ReadRow): ReadRow {
  let areFilled = false;
  return async (statement, values, deadline, caller) => {
    areFilled ||= (await readRow<{ filled: boolean }>(filledStatement, [], deadline)).filled;
    if (!areFilled) {
      const cause = new NotFilledError("The read models are not filled yet.");
      throw createUnavailableError("data_source_unavailable", cause);
    }
    return readRow(statement, values, deadline, caller);
  };
}
