import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import type pg from "pg";
import { readCheckpoint } from "../../../projection/checkpoints/checkpoint.ts";
import type { Difference } from "../../../projection/engine/compare-tables.ts";
import { startProjectors } from "../../../projection/engine/projectors.ts";
import { rebuild } from "../../../projection/engine/rebuild.ts";
import { NEXT_SCHEMA } from "../../../projection/engine/swap.ts";
import { verify } from "../../../projection/engine/verify.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import type { Role } from "../../../projection/roles/role.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog, EMPTY_STREAM, type EventLog } from "../../../shared/eventstore/log.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { createTestDataKeys } from "../../support/data-keys.ts";
import { eventually } from "../../support/eventually.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { type OwnLog, startOwnLog } from "../../support/own-log.ts";
import type { TestDatabase } from "../../support/stack.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";

const logger = createLogger("test", "fatal");
const neverAbortedSignal = new AbortController().signal;
const ignore = () => undefined;

describe("a rebuild under traffic", () => {
  let ownLog: OwnLog;
  let client: EventStoreDBClient;
  let log: EventLog;
  let database: TestDatabase;
  let pool: pg.Pool;
  let dataKeys: DataKeys;
  let readerPool: pg.Pool;
  let projectors: Role;
  let clinicId: string;
  let appendedCustomerIds: string[] = [];

  beforeEach(async () => {
    ownLog = await startOwnLog();
    client = connectEventStore(ownLog.eventstoreUrl, "test");
    database = await createDatabaseWithReadModels();
    const createTestPool = (url: string, size: number) =>
      createPool({ url, applicationName: "test", size, statementTimeoutMs: 10_000, logger });
    pool = createTestPool(database.urls.projection, 8);
    readerPool = createTestPool(database.urls.query, 2);
    dataKeys = createTestDataKeys(pool);
    log = createEventLog(client, { encryption: "off" });
    const { projection: databaseUrl } = database.urls;
    projectors = startProjectors({ client, pool, dataKeys, databaseUrl, models: readModels, logger });
    appendedCustomerIds = [];
    clinicId = randomUUID();
    await Promise.all(Array.from({ length: 50 }, appendCustomers));
    await eventually("the live read models have all customers", async () => (await readCustomerIds()).length === 50);
  });

  afterEach(async () => {
    await projectors.stop();
    await Promise.all([pool.end(), readerPool.end(), client.dispose()]);
    await ownLog.stop();
    await database.drop();
  });

  async function appendCustomers(): Promise<void> {
    const customerId = randomUUID();
    const details = { fullName: "Ana Kos", phone: null, email: null, city: null };
    const event = { type: "CustomerRegistered" as const, data: { customerId, clinicId, ...details } };
    const metadata = { ...createStoredMetadata(), clinicId };
    await log.append(`customer-${customerId}`, EMPTY_STREAM, [{ id: randomUUID(), event, metadata }]);
    appendedCustomerIds.push(customerId);
  }

  /**
   * Reads the ids of the customers with the query API's database role. Also checks that the statement read the tables
   * of only one schema, either all former tables or all new tables.
   */
  async function readCustomerIds(): Promise<string[]> {
    const buildSchemaSql = (table: string) =>
      `(SELECT relnamespace FROM pg_class WHERE oid = (SELECT tableoid FROM ${READ_MODEL_SCHEMA}.${table} LIMIT 1))`;
    const { rows } = await readerPool.query<{ ids: string[]; schemas: number[] }>(
      `SELECT coalesce(array_agg(customer_id), '{}') AS ids,
              array[${buildSchemaSql("customer")}, ${buildSchemaSql("checkpoint")}]::bigint[]::text[] AS schemas
         FROM ${READ_MODEL_SCHEMA}.customer WHERE clinic_id = $1`,
      [clinicId],
    );
    // For a table without rows, the schema is unknown.
    const schemas = new Set(rows[0]!.schemas.filter((schema) => schema !== null));
    expect(schemas.size, "schemas in one statement").to.equal(1);
    return rows[0]!.ids;
  }

  const createOptions = () => ({ client, pool, dataKeys, models: readModels, logger, onProgress: ignore });

  it("reads never see an empty or older state during a rebuild, and no live event is lost", async () => {
    let isOver = false;
    const readLoop = (async () => {
      let highestCount = 0;
      while (!isOver) {
        const { length } = await readCustomerIds();
        expect(length).to.be.at.least(highestCount);
        highestCount = length;
      }
    })();
    const writeLoop = (async () => {
      while (!isOver) await appendCustomers();
    })();
    for (let round = 0; round < 2; round += 1) {
      const swapPosition = await rebuild(createOptions(), neverAbortedSignal);
      expect(swapPosition !== undefined && swapPosition > 0n).to.equal(true);
    }
    isOver = true;
    await Promise.all([readLoop, writeLoop]);
    await eventually("all are seen", async () => (await readCustomerIds()).length === appendedCustomerIds.length);
    const { differenceCount, rows } = await verify({ ...createOptions(), onDifference: ignore }, neverAbortedSignal);
    expect(differenceCount).to.equal(0);
    expect(rows).to.be.at.least(appendedCustomerIds.length);
  });

  it("an interrupted rebuild leaves the current tables in use, and the next rebuild continues", async () => {
    const stopController = new AbortController();
    const onProgress = () => stopController.abort();
    await rebuild({ ...createOptions(), onProgress }, stopController.signal);
    expect((await readCustomerIds()).length).to.equal(50);
    expect((await readCheckpoint(pool, NEXT_SCHEMA)).position).to.be.a("bigint");
    await rebuild(createOptions(), neverAbortedSignal);
    expect((await readCustomerIds()).length).to.equal(50);
    await appendCustomers();
    await eventually("live events go on", async () => (await readCustomerIds()).length === 51);
  });

  it("two rebuilds cannot run at the same time", async () => {
    const outcomes = await Promise.allSettled([
      rebuild(createOptions(), neverAbortedSignal),
      rebuild(createOptions(), neverAbortedSignal),
    ]);
    const rejections = outcomes.filter((outcome) => outcome.status === "rejected");
    expect(rejections.map(({ reason }) => reason.message)).to.deep.equal([
      "Another rebuild or verify is running. Wait for it to end, then try again.",
    ]);
  });

  it("`verify` reports the table, key and columns of each row that differs, but no values", async () => {
    const [changedId, missingId] = appendedCustomerIds as [string, string];
    const extraId = randomUUID();
    const customerTable = `${READ_MODEL_SCHEMA}.customer`;
    await pool.query(`UPDATE ${customerTable} SET full_name = 'Somebody Else' WHERE customer_id = $1`, [changedId]);
    await pool.query(`DELETE FROM ${customerTable} WHERE customer_id = $1`, [missingId]);
    await pool.query(
      `INSERT INTO ${customerTable} SELECT $1, clinic_id, full_name, phone, email, city, created_at, updated_at,
         portal_json, appointment_json FROM ${customerTable} WHERE customer_id = $2`,
      [extraId, changedId],
    );
    const differences: Difference[] = [];
    await verify(
      { ...createOptions(), onDifference: (difference) => differences.push(difference) },
      neverAbortedSignal,
    );
    expect(differences).to.have.deep.members([
      { table: "customer", key: [changedId], kind: "changed", columns: ["full_name"] },
      { table: "customer", key: [missingId], kind: "missing", columns: [] },
      { table: "customer", key: [extraId], kind: "extra", columns: [] },
    ]);
  });
});
