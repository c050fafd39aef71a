import { expect } from "chai";
import pg from "pg";
import { migrate } from "../../../projection/prepare-database.ts";
import { findBlockingSessions } from "../../../projection/status/facts.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { eventually } from "../../support/eventually.ts";
import { createMigratedDatabase } from "../../support/migrated-database.ts";

describe("a session that a human has forgotten", () => {
  it("the status names the session and its user, and the database limits its idle transaction", async () => {
    const database = await createMigratedDatabase();
    // The test database is a copy, which does not contain the settings of its template.
    await migrate(database.urls.projection, createLogger("test", "silent"));
    const pool = new pg.Pool({ connectionString: database.urls.projection, max: 2 });
    const human = new pg.Client({ connectionString: database.urls.projection, application_name: "psql" });
    human.on("error", () => undefined); // Postgres ends the session
    await human.connect();
    try {
      const { rows } = await human.query("SHOW idle_in_transaction_session_timeout");
      expect(rows).to.deep.equal([{ idle_in_transaction_session_timeout: "10s" }]);
      expect(await findBlockingSessions(pool)).to.deep.equal([]);
      await human.query("BEGIN; LOCK TABLE projection.task_success");
      const waiting = pool.query("SELECT FROM projection.task_success");
      const sessions = await eventually("the blocking session", async () => {
        const found = await findBlockingSessions(pool);
        return found.length > 0 && found;
      });
      const { rows: users } = await pool.query("SELECT current_user AS name");
      expect(sessions).to.have.length(1);
      expect(sessions[0]).to.include({ user: users[0].name, application: "psql" });
      await waiting; // the time limit of the database has ended the human's transaction
    } finally {
      await human.end().catch(() => undefined);
      await pool.end();
    }
  });
});
