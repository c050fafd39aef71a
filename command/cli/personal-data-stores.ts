import type { EventStoreDBClient } from "@eventstore/db-client";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { isPostgresUnavailable } from "../../shared/postgres/unavailable.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { ServerUnavailableError, StartError } from "../../shared/runtime/run-service.ts";
import { type PersonalDataStores, ReadModelsBehindError } from "../operations/personal-data/erase-person.ts";

const POOL_SIZE = 10;

const STATEMENT_TIMEOUT_MS = 60_000;

const MISSING_TABLE_CODES = ["3F000", "42P01", "42703"];
const MISSING_RIGHT_CODE = "42501";

/**
 * Connects to the event log and the database, calls a function with them, and closes the connections afterwards. An
 * erasure needs no keys of personal data, because it encrypts and decrypts nothing.
 *
 * @throws {ConfigError} if EVENTSTORE_URL or DATABASE_URL is missing or invalid
 * @throws {StartError} if the database is not prepared for this release, or its user has too few rights
 * @throws {ServerUnavailableError} if Postgres is unavailable, or the read models are behind
 */
export async function withPersonalDataStores<Result>(
  env: NodeJS.ProcessEnv,
  run: (stores: PersonalDataStores & { client: EventStoreDBClient }) => Promise<Result>,
): Promise<Result> {
  const { EVENTSTORE_URL, DATABASE_URL: url } = readConfig(["EVENTSTORE_URL", "DATABASE_URL"], env);
  const client = connectEventStore(EVENTSTORE_URL, "operator");
  const pool = createPool({
    url,
    applicationName: "operator",
    size: POOL_SIZE,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    logger: createLogger("operator", "silent"), // the command reports a lost connection
  });
  try {
    return await run({ client, log: createEventLog(client), pool });
  } catch (error) {
    throw convertError(error);
  } finally {
    await Promise.all([client.dispose(), pool.end()]);
  }
}

function convertError(error: unknown): unknown {
  if (error instanceof ReadModelsBehindError) return new ServerUnavailableError(error.message);
  const { code = "" } = error as { code?: string };
  if (MISSING_TABLE_CODES.includes(code))
    return new StartError("the database is not prepared for this release; run `clinic projection migrate`");
  if (code === MISSING_RIGHT_CODE)
    return new StartError(
      "the user in DATABASE_URL has too few rights; use the DATABASE_URL of the projection service",
    );
  return isPostgresUnavailable(error)
    ? new ServerUnavailableError("Postgres is unavailable; check DATABASE_URL and try again")
    : error;
}
