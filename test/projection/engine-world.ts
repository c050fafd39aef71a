import { randomUUID } from "node:crypto";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { projectionCommandLine } from "../../projection/cli/command-line.ts";
import { startProjectors } from "../../projection/engine/projectors.ts";
import { rebuild } from "../../projection/engine/rebuild.ts";
import { type Difference, verify } from "../../projection/engine/verify.ts";
import { readModels } from "../../projection/read-models/all.ts";
import type { Role } from "../../projection/roles/role.ts";
import { runCommandLine as runAnyCommandLine } from "../../shared/command-line/command-line.ts";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { createPositionWatch, readPosition } from "../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { createTestDataKeys, PERSONAL_DATA_KEYS } from "../support/data-keys.ts";
import { createDatabaseWithReadModels } from "../support/migrated-database.ts";
import { startSeparateLog } from "../support/own-log.ts";
import { releaseLater } from "../support/resources.ts";
import { createStoredMetadata } from "../support/stored-metadata.ts";
import { createTestTerminal } from "../support/terminal.ts";
import type { CliResult, ServiceServers } from "./service-process.ts";

export type EngineWorld = Awaited<ReturnType<typeof createEngineWorld>>;

export const logger = createLogger("test", "silent");

/** Creates a separate log and database with empty read models, so that invalid events do not affect other tests. */
export async function createEngineWorld() {
  const ownLog = await startSeparateLog();
  const { eventstoreUrl } = ownLog;
  const database = await createDatabaseWithReadModels();
  const databaseUrl = database.urls.projection;
  const client = connectEventStore(eventstoreUrl, "test");
  const timeouts = { connectTimeoutMs: 60_000, statementTimeoutMs: 30_000 };
  const pool = createPool({ url: databaseUrl, applicationName: "test", size: 6, ...timeouts, logger });
  const dataKeys = createTestDataKeys(pool);
  const roles: Role[] = [];
  const runOptions = { client, pool, dataKeys, databaseUrl, models: readModels, logger, onProgress: () => undefined };
  const stopRoles = () => Promise.all(roles.splice(0).map((role) => role.stop()));
  return {
    client,
    log: createEventLog(client, { dataKeys }),
    dataKeys,
    pool,
    eventstoreUrl,
    databaseUrl,
    /** URL for the database role of the query API. */
    queryUrl: database.urls.query,
    /** Appends events without validation. @returns position of the last event */
    async append(stream: string, ...events: { type: string; data: object; metadata?: object }[]): Promise<bigint> {
      const proposedEvents = events.map(({ type, data, metadata = createStoredMetadata({ type, data }) }) =>
        jsonEvent({ type, data: data as Record<string, unknown>, metadata: metadata as Record<string, unknown> }),
      );
      const { position } = await client.appendToStream(stream, proposedEvents);
      return position!.commit;
    },
    /** Reads a customer's name from the read models. @returns undefined if there is no row */
    async readName(customerId: string): Promise<string | undefined> {
      const { rows } = await pool.query<{ full_name: string }>(
        `SELECT full_name FROM ${READ_MODEL_SCHEMA}.customer WHERE customer_id = $1`,
        [customerId],
      );
      return rows[0]?.full_name;
    },
    async waitFor(position: bigint): Promise<void> {
      const watch = createPositionWatch(() => readPosition(pool));
      expect(await watch.wait(position, 20_000)).to.equal(true);
    },
    /** Starts projectors, which run until `stopRoles` or `close`. */
    startProjectors(changes: Partial<ProjectorsOptions> = {}): Role {
      const role = startProjectors({ ...runOptions, ...changes });
      roles.push(role);
      return role;
    },
    stopRoles,
    rebuild: (changes: Partial<RebuildOptions> = {}, signal = new AbortController().signal) =>
      rebuild({ ...runOptions, ...changes }, signal),
    /** Compares the read models with the log. @returns the result, and all differences */
    async verify(changes: Partial<VerifyOptions> = {}) {
      const differences: Difference[] = [];
      const onDifference = (difference: Difference) => differences.push(difference);
      const result = await verify({ ...runOptions, onDifference, ...changes }, new AbortController().signal);
      return { ...result, differences };
    },
    runCommand: (...args: string[]) => runProjectionCommand({ eventstoreUrl, databaseUrl }, ...args),
    close: releaseLater(async () => {
      await stopRoles();
      await pool.end();
      await client.dispose();
      await ownLog.stop();
      await database.drop();
    }),
  };
}

type ProjectorsOptions = Parameters<typeof startProjectors>[0];
type RebuildOptions = Parameters<typeof rebuild>[0];
type VerifyOptions = Parameters<typeof verify>[0];

/** Runs `clinic projection …` in this process, with settings for the given servers. */
export function runProjectionCommand(servers: ServiceServers, ...args: string[]): Promise<CliResult> {
  const { eventstoreUrl: EVENTSTORE_URL, databaseUrl: DATABASE_URL, natsUrl: NATS_URL = "" } = servers;
  return runCommandLine({ EVENTSTORE_URL, DATABASE_URL, NATS_URL, PERSONAL_DATA_KEYS }, args);
}

/**
 * Runs `clinic projection …` in this process, which is faster than a separate process.
 *
 * @param env settings
 * @param args command and options
 */
export async function runCommandLine(env: NodeJS.ProcessEnv, args: readonly string[]): Promise<CliResult> {
  const { terminal, outputLines, errorLines } = createTestTerminal({ env });
  const code = await runAnyCommandLine(projectionCommandLine, args, terminal);
  const toText = (lines: string[]) => lines.map((line) => `${line}\n`).join("");
  return { code, stdout: toText(outputLines), stderr: toText(errorLines) };
}

export function createRegisteredEvent(customerId: string, fullName: string): CatalogEvent {
  const contact = { phone: null, email: null, city: "Ljubljana" };
  return { type: "CustomerRegistered", data: { customerId, clinicId: randomUUID(), fullName, ...contact } };
}

export function createRenamedEvent(customerId: string, fullName: string): CatalogEvent {
  const contact = { phone: null, email: null, city: "Ljubljana" };
  return { type: "CustomerDetailsChanged", data: { customerId, fullName, ...contact } };
}
