import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import type { Actor } from "../../shared/domain/events/metadata.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { createEventLog, type EventLog } from "../../shared/eventstore/log.ts";
import { createDataKeys, deferDataKeys } from "../../shared/personal-data/create-data-keys.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import { COMMAND_LINE_CONNECT_TIMEOUT_MS, createPool } from "../../shared/postgres/pool.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import type { CommandContext } from "./handle.ts";

const POOL_OPTIONS = { size: 2, connectTimeoutMs: COMMAND_LINE_CONNECT_TIMEOUT_MS, statementTimeoutMs: 5_000 };

/**
 * Connects to the event log, calls a function with the log, and closes the connections afterwards. Requires
 * EVENTSTORE_URL. Personal data also needs DATABASE_URL and PERSONAL_DATA_KEYS. `openPool` needs DATABASE_URL.
 *
 * @throws {ConfigError} if a needed setting is missing or invalid
 */
export async function withEventLog<Result>(
  env: NodeJS.ProcessEnv,
  run: (log: EventLog, client: EventStoreDBClient, dataKeys: DataKeys, openPool: () => pg.Pool) => Promise<Result>,
  poolOptions: Partial<typeof POOL_OPTIONS> & { shouldPreferIndexes?: boolean } = {},
): Promise<Result> {
  const { EVENTSTORE_URL } = readConfig(["EVENTSTORE_URL"], env);
  const client = connectEventStore(EVENTSTORE_URL, "operator");
  let pool: pg.Pool | undefined;
  const openPool = () => {
    pool ??= createPool({
      url: readConfig(["DATABASE_URL"], env).DATABASE_URL,
      applicationName: "operator",
      ...POOL_OPTIONS,
      ...poolOptions,
      logger: createLogger("operator", "silent"), // the command reports a lost connection
    });
    return pool;
  };
  const dataKeys = deferDataKeys(() => {
    const keyConfig = readConfig(["DATABASE_URL", "PERSONAL_DATA_KEYS"], env);
    return createDataKeys(openPool(), keyConfig);
  });
  try {
    return await run(createEventLog(client, { dataKeys }), client, dataKeys, openPool);
  } finally {
    await Promise.all([client.dispose(), pool?.end()]);
  }
}

/**
 * Creates the context of an operator's command. The operation that runs the command adds the clinic and environment.
 *
 * @param now time of the command, milliseconds since 1970
 */
export function createOperatorContext(actor: Actor, now: number): CommandContext {
  const correlationId = randomUUID();
  return {
    actor,
    clinicId: null,
    environment: null,
    correlationId,
    causationId: correlationId,
    now,
  };
}
