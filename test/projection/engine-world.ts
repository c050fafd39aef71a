import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type EventStoreDBClient, jsonEvent } from "@eventstore/db-client";
import type pg from "pg";
import { startLogServer } from "../../deploy/local/eventstore/server.ts";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { createEventLog, type EventLog } from "../../shared/eventstore/log.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { createTestDataKeys, PERSONAL_DATA_KEYS } from "../support/data-keys.ts";
import { createDatabaseWithReadModels } from "../support/migrated-database.ts";
import { createStoredMetadata } from "../support/stored-metadata.ts";
import { runCommandLine } from "./in-process-cli.ts";
import type { CliResult, ServiceServers } from "./service-process.ts";

/** A separate log and database with empty read models, so that invalid events do not affect other tests. */
export interface EngineWorld {
  client: EventStoreDBClient;
  log: EventLog;
  pool: pg.Pool;
  dataKeys: DataKeys;
  eventstoreUrl: string;
  databaseUrl: string;
  /** URL for the database role of the query API. */
  queryUrl: string;
  /** Appends events without validation. @returns position of the last event */
  append(stream: string, ...events: { type: string; data: object; metadata?: object }[]): Promise<bigint>;
  /** Reads a customer's name from the read models. @returns undefined if there is no row */
  readName(customerId: string): Promise<string | undefined>;
  /** Runs `clinic projection …` in this process. */
  runCommand(...args: string[]): Promise<CliResult>;
  close(): Promise<void>;
}

export const logger = createLogger("test", "silent");

export async function createEngineWorld(): Promise<EngineWorld> {
  const dir = await mkdtemp(join(tmpdir(), "clinic-engine-"));
  const server = await startLogServer({ dir, host: "127.0.0.1", port: 0, shouldSync: false });
  const eventstoreUrl = `esdb://127.0.0.1:${server.port}?tls=false`;
  const database = await createDatabaseWithReadModels();
  const databaseUrl = database.urls.projection;
  const client = connectEventStore(eventstoreUrl, "test");
  const options = { url: databaseUrl, applicationName: "test", size: 6, statementTimeoutMs: 5_000 };
  const pool = createPool({ ...options, logger });
  const dataKeys = createTestDataKeys(pool);
  return {
    client,
    log: createEventLog(client, { dataKeys }),
    dataKeys,
    pool,
    eventstoreUrl,
    databaseUrl,
    queryUrl: database.urls.query,
    async append(stream, ...events) {
      const proposedEvents = events.map(({ type, data, metadata = createStoredMetadata() }) =>
        jsonEvent({
          type,
          data: data as Record<string, unknown>,
          metadata: metadata as Record<string, unknown>,
        }),
      );
      const { position } = await client.appendToStream(stream, proposedEvents);
      return position!.commit;
    },
    async readName(customerId) {
      const { rows } = await pool.query<{ full_name: string }>(
        `SELECT full_name FROM ${READ_MODEL_SCHEMA}.customer WHERE customer_id = $1`,
        [customerId],
      );
      return rows[0]?.full_name;
    },
    runCommand: (...args) => runProjectionCommand({ eventstoreUrl, databaseUrl }, ...args),
    async close() {
      await pool.end();
      await client.dispose();
      await server.stop();
      await database.drop();
      await rm(dir, { recursive: true });
    },
  };
}

/** Runs `clinic projection …` in this process. */
export function runProjectionCommand(servers: ServiceServers, ...args: string[]): Promise<CliResult> {
  const { eventstoreUrl: EVENTSTORE_URL, databaseUrl: DATABASE_URL, natsUrl: NATS_URL = "" } = servers;
  return runCommandLine({ EVENTSTORE_URL, DATABASE_URL, NATS_URL, PERSONAL_DATA_KEYS }, args);
}

export function createRegisteredEvent(customerId: string, fullName: string): CatalogEvent {
  const contact = { phone: null, email: null, city: "Ljubljana" };
  return {
    type: "CustomerRegistered",
    data: { customerId, clinicId: randomUUID(), fullName, ...contact },
  };
}

export function createRenamedEvent(customerId: string, fullName: string): CatalogEvent {
  const contact = { phone: null, email: null, city: "Ljubljana" };
  return { type: "CustomerDetailsChanged", data: { customerId, fullName, ...contact } };
}
