import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type pg from "pg";
import { eventually } from "../../support/eventually.ts";
import { useResource } from "../../support/resources.ts";
import { startLimiterWorld } from "./limiters.ts";

/** A limit that no test in this file exceeds. */
const LIMIT = 1_000;

const UNREACHABLE_URL = "postgres://nobody:nothing@127.0.0.1:9/clinic";

describe("rate limiter", () => {
  const world = useResource(startLimiterWorld);

  /** Records the statements that count requests. */
  function recordStatements(pool: pg.Pool): unknown[] {
    const statements: unknown[] = [];
    const originalQuery = pool.query.bind(pool);
    // biome-ignore lint/suspicious/noExplicitAny: the type must cover all of pg's overloads
    pool.query = ((statement: any, ...args: any[]) => {
      if (statement.name === "count requests") statements.push(statement);
      return originalQuery(statement, ...args);
      // biome-ignore lint/suspicious/noExplicitAny: see above
    }) as any;
    return statements;
  }

  it("the limiters of both services count a key in the same window", async () => {
    const [warnings, key] = [[] as unknown[], randomUUID()];
    const commandLimiter = world.createLimiter(world.database.urls.command, warnings);
    const queryLimiter = world.createLimiter(world.database.urls.query, warnings);
    const counts = await Promise.all(
      Array.from({ length: 20 }, (_, index) => (index % 2 ? commandLimiter : queryLimiter).count(key, LIMIT)),
    );
    expect(counts.map(({ used }) => used).sort((a, b) => a - b)).to.deep.equal(
      Array.from({ length: 20 }, (_, index) => index + 1),
    );
    expect(new Set(counts.map(({ endsAt }) => endsAt)).size, "ends of the window").to.equal(1);
    for (const { endsInMs } of counts) expect(endsInMs).to.be.within(1, 60_000);
    expect((await commandLimiter.count(randomUUID(), LIMIT)).used).to.equal(1);
    expect(warnings).to.deep.equal([]);
  });

  it("one request needs one SQL statement, and 200 concurrent requests of one key need two SQL statements", async () => {
    const { pool, count } = world.createLimiter(world.database.urls.command);
    await eventually("this process is registered", async () => {
      const { rowCount } = await pool.query("SELECT FROM rate_limit.process");
      return rowCount! > 0;
    });
    const statements = recordStatements(pool);
    await count(randomUUID(), LIMIT);
    expect(statements).to.have.length(1);
    const key = randomUUID();
    await Promise.all(Array.from({ length: 200 }, () => count(key, LIMIT)));
    expect(statements).to.have.length(3);
    expect((await count(key, LIMIT)).used).to.equal(201);
  });

  it("300 keys whose requests arrive together need few SQL statements, and each key is counted exactly", async () => {
    const { pool, count } = world.createLimiter(world.database.urls.command);
    const statements = recordStatements(pool);
    const statementCounts: number[] = [];
    const keys = Array.from({ length: 300 }, () => randomUUID());
    const countAll = () => Promise.all(keys.map((key, index) => count(key, LIMIT, index % 2 ? 60 : 3_600)));
    for (let used = 1; used <= 3; used += 1) {
      statements.length = 0;
      const counts = await countAll();
      statementCounts.push(statements.length);
      expect(counts.map((keyCount) => keyCount.used)).to.deep.equal(Array(keys.length).fill(used));
      for (const [index, { endsInMs }] of counts.entries())
        expect(endsInMs, `window ${index}`).to.be.within(index % 2 ? 1 : 60_000, index % 2 ? 60_000 : 3_600_000);
    }
    // On a busy machine, a statement can wait too long for a lock. Its keys are then counted separately.
    expect(Math.min(...statementCounts)).to.equal(2);
    await pool.query("DELETE FROM rate_limit.counter WHERE key = ANY ($1)", [keys.slice(0, 150)]);
    const counts = await countAll();
    expect(counts.map(({ used }) => used)).to.deep.equal(Array(keys.length).fill(4));
  });

  it("several processes can count many keys at the same time, in any order", async () => {
    const limiters = Array.from({ length: 4 }, () => world.createLimiter(world.database.urls.command));
    const keys = Array.from({ length: 40 }, () => randomUUID());
    const roundCount = 25;
    await Promise.all(
      limiters.map(async ({ count }, index) => {
        for (let round = 0; round < roundCount; round += 1) {
          const orderedKeys = (index + round) % 2 ? keys : keys.toReversed();
          await Promise.all(orderedKeys.map((key) => count(key, LIMIT)));
        }
      }),
    );
    const counts = await Promise.all(keys.map((key) => limiters[0]!.count(key, LIMIT)));
    expect(counts.map(({ used }) => used)).to.deep.equal(Array(keys.length).fill(4 * roundCount + 1));
  });

  it("the limiter starts a new window after the last window has ended", async () => {
    const key = randomUUID();
    const { count, pool } = world.createLimiter(world.database.urls.command);
    await count(key, LIMIT);
    expect((await count(key, LIMIT)).used).to.equal(2);
    const sql = "UPDATE rate_limit.counter SET expire = $2 WHERE key = $1";
    expect((await pool.query(sql, [key, Date.now() - 1])).rowCount).to.equal(1);
    expect((await count(key, LIMIT)).used).to.equal(1);
  });

  it("the limiter continues a window even if Postgres has lost the counter in a crash", async () => {
    const key = randomUUID();
    const { count, pool } = world.createLimiter(world.database.urls.command);
    const { endsAt } = await count(key, LIMIT);
    await pool.query("DELETE FROM rate_limit.counter WHERE key = $1", [key]);
    const secondCount = await count(key, LIMIT);
    expect([secondCount.used, secondCount.endsAt]).to.deep.equal([2, endsAt]);
  });

  it("a window can be longer than a minute, with and without Postgres", async () => {
    const hourSeconds = 3_600;
    for (const url of [world.database.urls.command, UNREACHABLE_URL]) {
      const [limiter, key] = [world.createLimiter(url), randomUUID()];
      const counts = [];
      for (let n = 1; n <= 4; n += 1) counts.push(await limiter.count(key, 4, hourSeconds));
      expect(counts.map(({ endsAt }) => endsAt)).to.deep.equal(Array(4).fill(counts[0]?.endsAt));
      for (const { endsInMs } of counts) expect(endsInMs).to.be.within(1, 3_600_000);
      if (url !== UNREACHABLE_URL) expect(counts[0]?.endsInMs).to.be.above(3_590_000);
      expect((await limiter.count(randomUUID(), 2)).endsInMs, "of others").to.be.within(1, 60_000);
    }
  });

  it("requests over the limit are refused without a SQL statement until the window ends or the limit is raised", async () => {
    const key = randomUUID();
    const [limiter, otherLimiter] = [
      world.createLimiter(world.database.urls.command),
      world.createLimiter(world.database.urls.command),
    ];
    for (let used = 1; used <= 3; used += 1) expect((await limiter.count(key, 2)).used).to.equal(used);
    const refusedCount = await limiter.count(key, 2);
    expect(refusedCount.used).to.equal(3);
    expect(refusedCount.endsInMs).to.be.within(1, 60_000);
    expect((await otherLimiter.count(key, 2)).used, "in Postgres").to.equal(4);
    expect((await limiter.count(key, 10)).used, "with more agreed").to.equal(5);
  });

  it("a released request is no longer counted, unless its window has ended", async () => {
    const key = randomUUID();
    const [limiter, otherLimiter] = [
      world.createLimiter(world.database.urls.command),
      world.createLimiter(world.database.urls.command),
    ];
    const count = await limiter.count(key, LIMIT);
    await otherLimiter.count(key, LIMIT);
    await limiter.release(key, count, 60);
    expect((await otherLimiter.count(key, LIMIT)).used).to.equal(2);
    const sql = "UPDATE rate_limit.counter SET expire = $2 WHERE key = $1";
    expect((await limiter.pool.query(sql, [key, Date.now() - 1])).rowCount).to.equal(1);
    expect((await limiter.count(key, LIMIT)).used).to.equal(1);
    await limiter.release(key, count, 60);
    expect((await limiter.count(key, LIMIT)).used).to.equal(2);
  });

  it("the limiter deletes counters of ended windows and rows of stopped processes", async () => {
    const { pool } = world.createLimiter(world.database.urls.command);
    const [key, processId] = [randomUUID(), randomUUID()];
    await pool.query("INSERT INTO rate_limit.counter VALUES ($1, 1, 1)", [key]);
    await pool.query("INSERT INTO rate_limit.process VALUES ($1, now() - interval '1 hour')", [processId]);
    // A new process removes the counter of the ended window and the row of the stopped process.
    world.createLimiter(world.database.urls.query);
    await eventually("both are removed", async () => {
      const counters = await pool.query("SELECT FROM rate_limit.counter WHERE key = $1", [key]);
      const processes = await pool.query("SELECT FROM rate_limit.process WHERE id = $1", [processId]);
      return counters.rowCount === 0 && processes.rowCount === 0;
    });
  });
});
