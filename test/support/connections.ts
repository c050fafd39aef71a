import type { EventStoreDBClient } from "@eventstore/db-client";
import pg from "pg";
import { pino } from "pino";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { releaseLater } from "./resources.ts";

export function connectToLog(url: string): EventStoreDBClient {
  const client = connectEventStore(url, "test");
  releaseLater(() => client.dispose());
  return client;
}

/** Creates a pool of connections like those of the services. */
export function createTestPool(url: string, options: Partial<Parameters<typeof createPool>[0]> = {}): pg.Pool {
  // On a busy machine, a connection takes longer than a service waits.
  const timeouts = { connectTimeoutMs: 60_000, statementTimeoutMs: 30_000 };
  const defaults = { applicationName: "test", size: 4, ...timeouts, logger: pino({ enabled: false }) };
  const pool = createPool({ url, ...defaults, ...options });
  releaseLater(() => (pool.ended ? undefined : pool.end()));
  return pool;
}

/** Opens a pool for a test's own statements. They have no time limit, because the machine may be busy. */
export function openDatabase(url: string, max = 4): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max });
  // Dropping the database closes idle connections, which then emit an error.
  pool.on("error", () => undefined);
  releaseLater(() => pool.end());
  return pool;
}
