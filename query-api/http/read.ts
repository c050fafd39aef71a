import type pg from "pg";
import { unavailable } from "../../shared/http/api-error.ts";
import type { RequestState } from "../../shared/http/app.ts";

/** A statement that Postgres prepares once for each connection. */
export interface Statement {
  name: string;
  text: string;
}

/**
 * Asks Postgres for one row.
 *
 * @param deadline when to give up, by `performance.now()`
 * @throws {ApiError} 503 `data_source_unavailable` at the deadline, and where there are no read models yet
 */
export type ReadRow = <Row extends object>(
  statement: Statement,
  values: readonly unknown[],
  deadline: number,
) => Promise<Row>;

/** What every request to this service carries. */
export interface QueryState extends RequestState {
  /** When the request's reads end, by `performance.now()`. */
  deadline: number;
}

/**
 * Reads of one request end after this, however many there are and whatever they wait for: a connection, the server's
 * answer. Below the three seconds within which a caller hears that the database is out of reach. Milliseconds.
 */
export const READ_TIMEOUT_MS = 2_600;

/** No such table, no such schema: the projection has not created the read models. */
const MISSING_SCHEMA_CODES = new Set(["42P01", "3F000"]);

export function createReadRow(pool: pg.Pool): ReadRow {
  return async <Row extends object>(
    statement: Statement,
    values: readonly unknown[],
    deadline: number,
  ): Promise<Row> => {
    const { rows } = await withDeadline(
      deadline,
      pool.query<Row>({ ...statement, values: [...values] }),
    ).catch((error: unknown) => {
      const { code } = error as { code?: unknown };
      throw MISSING_SCHEMA_CODES.has(String(code)) ? unavailable("data_source_unavailable", error) : error;
    });
    const [row] = rows;
    if (!row || rows.length > 1) throw new Error(`${statement.name} gave ${rows.length} rows, not one`);
    return row;
  };
}

/** The statement that is given up goes on until the server's own timeout, then its connection is free again. */
async function withDeadline<Result>(deadline: number, work: Promise<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const giveUp = () =>
      reject(unavailable("data_source_unavailable", new Error("postgres did not answer in time")));
    timer = setTimeout(giveUp, Math.max(0, deadline - performance.now()));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
