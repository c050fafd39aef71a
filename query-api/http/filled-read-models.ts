import { createUnavailableError } from "../../shared/http/api-error.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import type { ReadRow, Statement } from "./read.ts";

/** The read models of this release have never reached the end of the log, so they contain states of the past. */
export class NotFilledError extends Error {
  override readonly name = "NotFilledError";
}

/** SQLSTATE code for a missing column. An earlier release has created the table, and the database is not prepared yet. */
const UNDEFINED_COLUMN_CODE = "42703";

const filledStatement = { name: "filled", text: `SELECT filled FROM ${READ_MODEL_SCHEMA}.checkpoint` };

/**
 * Restricts reads to filled read models. Until the read models of this release are filled, each read fails with 503
 * `data_source_unavailable`, caused by a {@link NotFilledError}.
 */
export function requireFilledReadModels(readRow: ReadRow): ReadRow {
  let areFilled = false;
  const readFilled = async (deadline: number) => {
    try {
      return (await readRow<{ filled: boolean }>(filledStatement, [], deadline)).filled;
    } catch (error) {
      const isColumnMissing = (error as { code?: unknown }).code === UNDEFINED_COLUMN_CODE;
      throw isColumnMissing ? createUnavailableError("data_source_unavailable", error) : error;
    }
  };
  return async <Row extends object>(statement: Statement, values: readonly unknown[], deadline: number) => {
    areFilled ||= await readFilled(deadline);
    if (!areFilled) {
      const cause = new NotFilledError("The read models are not filled yet.");
      throw createUnavailableError("data_source_unavailable", cause);
    }
    return readRow<Row>(statement, values, deadline);
  };
}
