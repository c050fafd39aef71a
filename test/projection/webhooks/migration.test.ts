import { readdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { runner } from "node-pg-migrate";
import pg from "pg";
import { migrate } from "../../../projection/migrate.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { createTestDatabase, type TestDatabase } from "../../support/stack.ts";

const dir = fileURLToPath(new URL("../../../projection/migrations", import.meta.url));

describe("the migration of failing endpoints", () => {
  let database: TestDatabase;
  let client: pg.Client;

  before(async () => {
    database = await createTestDatabase();
    client = new pg.Client({ connectionString: database.urls.projection });
    await client.connect();
  });
  after(async () => {
    await client.end();
    await database.drop();
  });

  it("the migration keeps the start of a failure period and sets the number of failures to one", async () => {
    const names = (await readdir(dir)).sort();
    const count = names.findIndex((name) => name.startsWith("000010"));
    await runner({
      ...{ dbClient: client, dir, direction: "up", migrationsTable: "migration", count },
      ...{ log: () => undefined, singleTransaction: true },
    });
    const endpointId = "018f3f3c-7a2b-7c11-9b52-6d2f8f1a0001";
    const since = new Date("2030-05-01T09:00:00.000Z");
    await client.query("INSERT INTO webhooks.failing_endpoint VALUES ($1, $2)", [endpointId, since]);
    await migrate(database.urls.projection, createLogger("test", "silent"));
    const { rows } = await client.query("SELECT * FROM webhooks.failing_endpoint");
    expect(rows).to.deep.equal([{ endpoint_id: endpointId, since, failures: 1, last_failed_at: since }]);
  });
});
