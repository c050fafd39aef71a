import { expect } from "chai";
import type pg from "pg";
import { pino } from "pino";
import { createReadRow, READS_WITHIN, type ReadRow } from "../../query-api/read.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { createTestDatabase, type TestDatabase } from "../support/stack.ts";

describe("createReadRow", () => {
  let database: TestDatabase;
  let pool: pg.Pool;
  let read: ReadRow;

  before(async () => {
    database = await createTestDatabase();
    pool = createPool({
      url: database.urls.query,
      applicationName: "test",
      size: 1,
      statementTimeout: 2_000,
      logger: pino({ level: "silent" }),
    });
    read = createReadRow(pool);
  });

  after(async () => {
    await pool.end();
    await database.drop();
  });

  const within = (milliseconds: number) => performance.now() + milliseconds;
  const failure = (answer: Promise<unknown>) =>
    answer.then(
      () => undefined,
      (error: unknown) => error,
    );

  it("leaves room for an answer within three seconds", () => {
    expect(READS_WITHIN).to.be.below(2_800);
  });

  it("gives the row of a statement that Postgres has prepared", async () => {
    const statement = { name: "the answer", text: "SELECT $1::integer AS answer" };
    expect(await read(statement, [42], within(2_000))).to.deep.equal({ answer: 42 });
    const { rows } = await pool.query("SELECT name FROM pg_prepared_statements");
    expect(rows).to.deep.equal([{ name: "the answer" }]);
  });

  it("gives up at the deadline, though the statement goes on", async () => {
    const started = performance.now();
    const slow = { name: "slow", text: "SELECT 1 FROM pg_sleep(0.6)" };
    const error = await failure(read(slow, [], within(150)));
    expect(error).to.include({ status: 503, code: "data_source_unavailable" });
    expect(performance.now() - started).to.be.within(100, 500);
  });

  it("fails where a statement gives no row, or two", async () => {
    for (const count of [0, 2]) {
      const statement = { name: `${count}`, text: `SELECT FROM generate_series(1, ${count})` };
      expect(await failure(read(statement, [], within(2_000)))).to.be.instanceOf(Error);
    }
  });
});
