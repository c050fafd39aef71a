import { expect } from "chai";
import pg from "pg";
import { requirePreparedDatabase } from "../../projection/require-prepared-database.ts";
import { createDatabaseWithReadModels, createMigratedDatabase } from "../support/migrated-database.ts";
import type { TestDatabase } from "../support/stack.ts";

const UNPREPARED_MESSAGE = "The database is not prepared for this release";

describe("the check that a database is prepared for this release", () => {
  async function checkDatabase(database: TestDatabase, change?: string): Promise<void> {
    const pool = new pg.Pool({ connectionString: database.urls.projection, max: 1 });
    try {
      if (change) await pool.query(change);
      await requirePreparedDatabase(pool);
    } finally {
      await pool.end();
      await database.drop();
    }
  }

  const getMessage = (promise: Promise<void>) =>
    promise.then(
      () => "prepared",
      (error: Error) => error.message,
    );

  it("a database without read models is not prepared", async () => {
    expect(await getMessage(checkDatabase(await createMigratedDatabase()))).to.contain(UNPREPARED_MESSAGE);
  });

  it("a database that lacks one migration is not prepared", async () => {
    const change = "DELETE FROM migration WHERE name LIKE '000014-%'";
    expect(await getMessage(checkDatabase(await createDatabaseWithReadModels(), change))).to.contain(
      UNPREPARED_MESSAGE,
    );
  });

  it("a database with migrations of a later release is prepared", async () => {
    const change = "INSERT INTO migration (name, run_on) VALUES ('999999-later', now())";
    expect(await getMessage(checkDatabase(await createDatabaseWithReadModels(), change))).to.equal("prepared");
  });
});
