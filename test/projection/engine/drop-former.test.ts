import { expect } from "chai";
import pg from "pg";
import { dropSchema, FORMER_SCHEMA } from "../../../projection/engine/swap.ts";
import { eventually } from "../../support/eventually.ts";
import { createTestDatabase, type TestDatabase } from "../../support/stack.ts";

describe("dropping the former tables after a rebuild", () => {
  let database: TestDatabase;
  let pool: pg.Pool;

  before(async () => {
    database = await createTestDatabase();
    pool = new pg.Pool({ connectionString: database.urls.projection });
  });
  after(async () => {
    await pool.end();
    await database.drop();
  });

  // The order in which the drop locks the tables is unknown. In one of these two tests, the session locks the tables in
  // the opposite order, so a deadlock would be possible.
  for (const [firstTable, secondTable] of [
    ["one", "other"],
    ["other", "one"],
  ])
    it(`dropping the former tables does not deadlock with a session that locks table ${firstTable} and then table ${secondTable}`, async () => {
      await pool.query(
        `CREATE SCHEMA ${FORMER_SCHEMA}; CREATE TABLE ${FORMER_SCHEMA}.one (); CREATE TABLE ${FORMER_SCHEMA}.other ()`,
      );
      const [reader, dropper] = await Promise.all([pool.connect(), pool.connect()]);
      await reader.query(`BEGIN; SELECT FROM ${FORMER_SCHEMA}.${firstTable}`);
      const dropPromise = dropSchema(dropper, FORMER_SCHEMA, new AbortController().signal);
      await eventually("the drop waits for the session", async () => {
        const { rowCount } = await pool.query("SELECT FROM pg_locks WHERE NOT granted");
        return (rowCount ?? 0) > 0;
      });
      await reader.query(`SELECT FROM ${FORMER_SCHEMA}.${secondTable}`);
      await reader.query("COMMIT");
      await dropPromise;
      const { rows } = await pool.query("SELECT to_regnamespace($1) AS found", [FORMER_SCHEMA]);
      expect(rows).to.deep.equal([{ found: null }]);
      reader.release();
      dropper.release();
    });
});
