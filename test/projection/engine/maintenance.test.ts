import { expect } from "chai";
import type pg from "pg";
import { withMaintenanceLock } from "../../../projection/engine/maintenance.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { StartError } from "../../../shared/runtime/run-service.ts";
import { createTestDatabase, type TestDatabase } from "../../support/stack.ts";

describe("the connection of a rebuild or verify", () => {
  let database: TestDatabase;
  let pool: pg.Pool;

  before(async () => {
    database = await createTestDatabase();
    const logger = createLogger("test", "silent");
    const url = database.urls.projection;
    pool = createPool({ url, applicationName: "test", size: 2, statementTimeoutMs: 100, logger });
  });
  after(async () => {
    await pool.end();
    await database.drop();
  });

  it("a statement of `rebuild` or `verify` may run longer than the statement timeout of the connection pool", async () => {
    const { rows } = await withMaintenanceLock(pool, (connection) =>
      connection.query<{ position: bigint }>("SELECT 5::bigint AS position FROM pg_sleep(1)"),
    );
    expect(rows).to.deep.equal([{ position: 5n }]);
  });

  it("only one `rebuild` or `verify` can run at a time, and no connection stays open afterwards", async () => {
    const error = await withMaintenanceLock(pool, () =>
      withMaintenanceLock(pool, async () => undefined).catch((error: unknown) => error),
    );
    expect(error).to.be.instanceOf(StartError);
    await withMaintenanceLock(pool, async () => undefined);
    const { rowCount } = await pool.query(
      "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    expect(rowCount).to.equal(0);
  });
});
