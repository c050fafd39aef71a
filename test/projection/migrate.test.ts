import { randomUUID } from "node:crypto";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import pg from "pg";
import { migrate, requirePreparedDatabase } from "../../projection/prepare-database.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { insertFailingEndpoint } from "../support/failing-endpoint.ts";
import { createDatabaseWithReadModels, createMigratedDatabase } from "../support/migrated-database.ts";
import type { TestDatabase } from "../support/stack.ts";

const UNPREPARED_MESSAGE = "The database is not prepared for this release";

describe("the migrations of the database", () => {
  it("a later release applies only its new migrations, keeps the rows, and applies each migration once", async () => {
    const folder = await mkdtemp(join(tmpdir(), "clinic-migrations-"));
    const { urls, drop } = await createMigratedDatabase();
    const pool = new pg.Pool({ connectionString: urls.projection, max: 1 });
    try {
      await cp(fileURLToPath(new URL("../../projection/migrations", import.meta.url)), folder, { recursive: true });
      const sql = "ALTER TABLE webhooks.failing_endpoint ADD COLUMN note text NOT NULL DEFAULT 'kept';";
      await writeFile(join(folder, "000099-later.sql"), `-- Up Migration\n${sql}\n`);
      await insertFailingEndpoint(pool, randomUUID());
      const migrateOnce = () => migrate(urls.projection, createLogger("test", "silent"), folder);
      const appliedNames = await Promise.all([migrateOnce(), migrateOnce()]);
      expect(appliedNames.flat()).to.deep.equal(["000099-later"]);
      const { rows } = await pool.query("SELECT failures, note FROM webhooks.failing_endpoint");
      expect(rows).to.deep.equal([{ failures: 3, note: "kept" }]);
    } finally {
      await pool.end();
      await drop();
      await rm(folder, { recursive: true });
    }
  });
});

describe("the check that a database is prepared for this release", () => {
  async function checkDatabase(database: TestDatabase, change?: string): Promise<string> {
    const pool = new pg.Pool({ connectionString: database.urls.projection, max: 1 });
    try {
      if (change) await pool.query(change);
      await requirePreparedDatabase(pool);
      return "prepared";
    } catch (error) {
      return (error as Error).message;
    } finally {
      await pool.end();
      await database.drop();
    }
  }

  it("a database without read models is not prepared", async () => {
    expect(await checkDatabase(await createMigratedDatabase())).to.contain(UNPREPARED_MESSAGE);
  });

  it("a database that lacks one migration is not prepared", async () => {
    const change = "DELETE FROM migration WHERE name LIKE '000002-%'";
    expect(await checkDatabase(await createDatabaseWithReadModels(), change)).to.contain(UNPREPARED_MESSAGE);
  });

  it("a database with migrations of a later release is prepared", async () => {
    const change = "INSERT INTO migration (name, run_on) VALUES ('999999-later', now())";
    expect(await checkDatabase(await createDatabaseWithReadModels(), change)).to.equal("prepared");
  });
});
