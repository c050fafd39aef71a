import { expect } from "chai";
import { pino } from "pino";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createTestDatabase } from "../../support/stack.ts";

describe("the pool of connections to Postgres", () => {
  it("Postgres compiles no statements, also if the other settings of the pool make their estimated cost extremely high", async () => {
    const { urls, drop } = await createTestDatabase();
    for (const shouldPreferIndexes of [false, true]) {
      const pool = createPool({
        url: urls.projection,
        applicationName: "test",
        size: 1,
        statementTimeoutMs: 10_000,
        shouldPreferIndexes,
        logger: pino({ enabled: false }),
      });
      const { rows } = await pool.query(
        "SELECT current_setting('jit') AS jit, current_setting('enable_seqscan') AS scan",
      );
      expect(rows).to.deep.equal([{ jit: "off", scan: shouldPreferIndexes ? "off" : "on" }]);
      await pool.end();
    }
    await drop();
  });
});
