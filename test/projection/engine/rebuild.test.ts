import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type pg from "pg";
import { readCheckpoint } from "../../../projection/checkpoints/checkpoint.ts";
import { NEXT_SCHEMA } from "../../../projection/engine/rebuild.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { customerRegistered } from "../../support/clinics.ts";
import { createTestPool } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { useResource } from "../../support/resources.ts";
import { createEngineWorld } from "../engine-world.ts";

describe("a rebuild under traffic", () => {
  const world = useResource(createEngineWorld, "test");
  let readerPool: pg.Pool;
  let clinicId: string;
  let appendedCustomerIds: string[] = [];

  beforeEach(async () => {
    readerPool = createTestPool(world.queryUrl);
    world.startProjectors();
    appendedCustomerIds = [];
    clinicId = randomUUID();
    await Promise.all(Array.from({ length: 50 }, appendCustomer));
    await eventually("the live read models have all customers", async () => (await readCustomerIds()).length === 50);
  });

  async function appendCustomer(): Promise<void> {
    const customerId = randomUUID();
    await world.append(`customer-${customerId}`, customerRegistered(clinicId, customerId));
    appendedCustomerIds.push(customerId);
  }

  /**
   * Reads the ids of the customers with the query API's role. Also checks that the statement read only one schema:
   * either the former tables or the new ones.
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
      while (!isOver) await appendCustomer();
    })();
    for (let round = 0; round < 2; round += 1) {
      const swapPosition = await world.rebuild();
      expect(swapPosition !== undefined && swapPosition > 0n).to.equal(true);
    }
    isOver = true;
    await Promise.all([readLoop, writeLoop]);
    await eventually("all are seen", async () => (await readCustomerIds()).length === appendedCustomerIds.length);
    const { differenceCount, rows } = await world.verify();
    expect(differenceCount).to.equal(0);
    expect(rows).to.be.at.least(appendedCustomerIds.length);
  });

  it("an interrupted rebuild leaves the current tables in use, and the next rebuild continues", async () => {
    const readSchemaId = async (schema: string) =>
      (await world.pool.query("SELECT to_regnamespace($1)::oid AS id", [schema])).rows[0].id;
    const stopController = new AbortController();
    await world.rebuild({ onProgress: () => stopController.abort() }, stopController.signal);
    expect((await readCustomerIds()).length).to.equal(50);
    expect((await readCheckpoint(world.pool, NEXT_SCHEMA)).position).to.be.a("bigint");
    const nextSchemaId = await readSchemaId(NEXT_SCHEMA);
    await world.rebuild();
    expect(await readSchemaId(READ_MODEL_SCHEMA), "the tables of the interrupted rebuild").to.equal(nextSchemaId);
    expect((await readCustomerIds()).length).to.equal(50);
    await appendCustomer();
    await eventually("live events go on", async () => (await readCustomerIds()).length === 51);
  });

  it("`verify` reports the table, key and columns of each row that differs, but no values", async () => {
    const [changedId, missingId] = appendedCustomerIds as [string, string];
    const extraId = randomUUID();
    const customerTable = `${READ_MODEL_SCHEMA}.customer`;
    await world.pool.query(`UPDATE ${customerTable} SET full_name = 'Somebody Else' WHERE customer_id = $1`, [
      changedId,
    ]);
    await world.pool.query(`DELETE FROM ${customerTable} WHERE customer_id = $1`, [missingId]);
    await world.pool.query(
      `INSERT INTO ${customerTable} SELECT $1, clinic_id, full_name, phone, email, city, created_at, updated_at,
         portal_json, appointment_json FROM ${customerTable} WHERE customer_id = $2`,
      [extraId, changedId],
    );
    const { differences } = await world.verify();
    expect(differences).to.have.deep.members([
      { table: "customer", key: [changedId], kind: "changed", columns: ["full_name"] },
      { table: "customer", key: [missingId], kind: "missing", columns: [] },
      { table: "customer", key: [extraId], kind: "extra", columns: [] },
    ]);
  });
});
