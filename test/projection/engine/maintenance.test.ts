import { expect } from "chai";
import type pg from "pg";
import { dropSchema, withMaintenanceLock } from "../../../projection/engine/maintenance.ts";
import { StartError } from "../../../shared/runtime/run-service.ts";
import { createTestPool } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { useResource } from "../../support/resources.ts";
import { createTestDatabase } from "../../support/stack.ts";

describe("the maintenance of the read models", () => {
  const database = useResource(createTestDatabase);
  let pool: pg.Pool;

  before(async () => {
    const url = database.urls.projection;
    pool = createTestPool(url, { statementTimeoutMs: 500 });
  });

  it("a statement of `rebuild` or `verify` may run longer than the statement timeout of the connection pool", async () => {
    const { rows } = await withMaintenanceLock(pool, (connection) =>
      connection.query<{ position: bigint }>("SELECT 5::bigint AS position FROM pg_sleep(1)"),
    );
    expect(rows).to.deep.equal([{ position: 5n }]);
  });

  it("only one `rebuild`, `verify`, `prune` or `scrub` can run at a time, and no connection stays open afterwards", async () => {
    const error = await withMaintenanceLock(pool, () =>
      withMaintenanceLock(pool, async () => undefined).catch((error: unknown) => error),
    );
    expect(error).to.be.instanceOf(StartError);
    expect((error as Error).message).to.match(/^A rebuild, verify, prune or scrub is running\. /);
    await withMaintenanceLock(pool, async () => undefined);
    const { rowCount } = await pool.query(
      "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    expect(rowCount).to.equal(0);
  });

  // The order in which the drop locks the tables is unknown. In one of these two tests, the session locks the tables in
  // the opposite order, so a deadlock would be possible.
  for (const [firstTable, secondTable] of [
    ["one", "other"],
    ["other", "one"],
  ])
    it(`dropping a schema does not deadlock with a session that locks table ${firstTable} and then table ${secondTable}`, async () => {
      await pool.query("CREATE SCHEMA dropped; CREATE TABLE dropped.one (); CREATE TABLE dropped.other ()");
      const [reader, dropper] = await Promise.all([pool.connect(), pool.connect()]);
      await reader.query(`BEGIN; SELECT FROM dropped.${firstTable}`);
      const dropPromise = dropSchema(dropper, "dropped", new AbortController().signal);
      await eventually("the drop waits for the session", async () => {
        const { rowCount } = await pool.query("SELECT FROM pg_locks WHERE NOT granted");
        return (rowCount ?? 0) > 0;
      });
      await reader.query(`SELECT FROM dropped.${secondTable}`);
      await reader.query("COMMIT");
      await dropPromise;
      const { rows } = await pool.query("SELECT to_regnamespace('dropped') AS found");
      expect(rows).to.deep.equal([{ found: null }]);
      reader.release();
      dropper.release();
    });
});
