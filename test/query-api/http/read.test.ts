import { expect } from "chai";
import pg from "pg";
import { createRowReader, READ_TIMEOUT_MS, type ReadRow } from "../../../query-api/http/read.ts";
import { createTestPool } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { useResource } from "../../support/resources.ts";
import { createTestDatabase } from "../../support/stack.ts";

describe("createReadRow", () => {
  const database = useResource(createTestDatabase);
  let pool: pg.Pool;
  let readRow: ReadRow;

  before(() => {
    pool = createTestPool(database.urls.query, { size: 1, statementTimeoutMs: 2_000 });
    readRow = createRowReader(pool);
  });

  const createDeadline = (milliseconds: number) => performance.now() + milliseconds;
  const catchError = (promise: Promise<unknown>) =>
    promise.then(
      () => undefined,
      (error: unknown) => error,
    );

  it("the time limit for reads is short enough for a response within three seconds", () => {
    expect(READ_TIMEOUT_MS).to.be.below(2_800);
  });

  it("createReadRow runs a prepared statement and returns the row", async () => {
    const statement = { name: "echo", text: "SELECT $1::integer AS answer" };
    expect(await readRow(statement, [42], createDeadline(2_000))).to.deep.equal({ answer: 42 });
    const { rows } = await pool.query("SELECT name FROM pg_prepared_statements");
    expect(rows).to.deep.equal([{ name: "echo" }]);
  });

  it("a read fails at the deadline even if the statement continues in Postgres", async () => {
    const slowStatement = { name: "slow", text: "SELECT 1 AS one FROM pg_advisory_xact_lock(1)" };
    const lockHolder = new pg.Client({ connectionString: database.urls.query });
    await lockHolder.connect();
    await lockHolder.query("SELECT pg_advisory_lock(1)");
    const error = await catchError(readRow(slowStatement, [], createDeadline(50)));
    expect(error).to.include({ status: 503, code: "data_source_unavailable" });
    await eventually("the statement waits for the lock", async () => {
      const waitingSql = "SELECT FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()";
      return (await lockHolder.query(waitingSql)).rowCount === 1;
    });
    await lockHolder.end();
    expect(await readRow(slowStatement, [], createDeadline(5_000))).to.deep.equal({ one: 1 });
  });

  it("a read fails if the statement returns no row or two rows", async () => {
    for (const count of [0, 2]) {
      const statement = { name: `${count}`, text: `SELECT FROM generate_series(1, ${count})` };
      expect(await catchError(readRow(statement, [], createDeadline(2_000)))).to.be.instanceOf(Error);
    }
  });
});
