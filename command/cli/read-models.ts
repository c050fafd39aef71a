import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createEventLog, type EventLog } from "../../shared/eventstore/log.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import { isColumnMissing, isRightMissing, isTableMissing } from "../../shared/runtime/failures.ts";
import { ServerUnavailableError, StartError } from "../../shared/runtime/run-service.ts";
import { withEventLog } from "../handling/operator.ts";
import { ReadModelsBehindError } from "../operations/personal-data/erase-person.ts";

/** Pool settings for erasures and for reads of audit events by type, which are slow without a database index. */
const POOL_OPTIONS = { size: 10, statementTimeoutMs: 60_000 };

export interface Stores {
  client: EventStoreDBClient;
  /** Event log that does not decrypt personal data. It suffices for erasures, which encrypt and decrypt nothing. */
  log: EventLog;
  /** Event log that decrypts personal data. Reading from it requires the setting PERSONAL_DATA_KEYS. */
  readableLog: EventLog;
  dataKeys: DataKeys;
  pool: pg.Pool;
}

/**
 * Connects to the event log and the database, calls a function with them, and closes the connections afterwards.
 *
 * @throws {ConfigError} if EVENTSTORE_URL or DATABASE_URL is missing or invalid
 * @throws {StartError} if the database is not prepared for this release, or its user has too few rights
 * @throws {ServerUnavailableError} if the read models are behind
 */
export async function withReadModels<Result>(
  env: NodeJS.ProcessEnv,
  run: (stores: Stores) => Promise<Result>,
): Promise<Result> {
  try {
    return await withEventLog(
      env,
      (readableLog, client, dataKeys, openPool) =>
        run({ client, log: createEventLog(client), readableLog, dataKeys, pool: openPool() }),
      POOL_OPTIONS,
    );
  } catch (error) {
    throw convertError(error);
  }
}

function convertError(error: unknown): unknown {
  if (error instanceof ReadModelsBehindError) return new ServerUnavailableError(error.message);
  if (isTableMissing(error) || isColumnMissing(error))
    return new StartError("the database is not prepared for this release; run `clinic projection migrate`");
  if (isRightMissing(error))
    return new StartError(
      "the user in DATABASE_URL has too few rights; use the DATABASE_URL of the projection service",
    );
  return error;
}
