import { createUnavailableError } from "../../shared/http/api-error.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import type { ReadRow, Statement } from "./read.ts";

/** The read models of this release have never reached the end of the log, so they contain states of the past. */
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
  return async <Row extends object>(statement: Statement, values: readonly unknown[], deadline: number) => {
    areFilled ||= (await readRow<{ filled: boolean }>(filledStatement, [], deadline)).filled;
    if (!areFilled) {
      const cause = new NotFilledError("The read models are not filled yet.");
      throw createUnavailableError("data_source_unavailable", cause);
    }
    return readRow<Row>(statement, values, deadline);
  };
}
