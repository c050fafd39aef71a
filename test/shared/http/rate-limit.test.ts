import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type pg from "pg";
import { pino } from "pino";
import { migrate } from "../../../projection/migrate.ts";
import { createRateLimiter } from "../../../shared/http/rate-limit.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createTestDatabase, type TestDatabase } from "../../support/stack.ts";

/** More than any test here counts. */
const LIMIT = 1_000;

const logger = pino({ enabled: false });

describe("rate limiter", () => {
  let database: TestDatabase;
  const pools: pg.Pool[] = [];

  /** A limiter of a process of its own, as far as Postgres can tell. */
  function limiterOf(url: string, warnings: unknown[] = []) {
    const pool = createPool({ url, applicationName: "test", size: 4, statementTimeout: 1_000, logger });
    pools.push(pool);
    const warn = (...given: unknown[]) => void warnings.push(given);
    return createRateLimiter(pool, Object.assign(Object.create(logger), { warn }));
  }

  before(async () => {
    database = await createTestDatabase();
    await migrate(database.urls.projection, logger);
  });
  after(async () => {
    await Promise.all(pools.map((pool) => pool.end()));
    await database.drop();
  });

  it("counts over processes and over both services' roles", async () => {
    const [warnings, key] = [[] as unknown[], randomUUID()];
    const command = limiterOf(database.urls.command, warnings);
    const query = limiterOf(database.urls.query, warnings);
    const counts = await Promise.all(
      Array.from({ length: 20 }, (_, index) => (index % 2 ? command : query).count(key, LIMIT)),
    );
    expect(counts.map(({ used }) => used).sort((a, b) => a - b)).to.deep.equal(
      Array.from({ length: 20 }, (_, index) => index + 1),
    );
    for (const { endsIn } of counts) expect(endsIn).to.be.within(1, 60_000);
    expect((await command.count(randomUUID(), LIMIT)).used).to.equal(1);
    expect(warnings).to.deep.equal([]);
  });

  it("starts a new window when the last one has ended", async () => {
    const key = randomUUID();
    const limiter = limiterOf(database.urls.command);
    await limiter.count(key, LIMIT);
    expect((await limiter.count(key, LIMIT)).used).to.equal(2);
    const sql = "UPDATE rate_limit.counter SET expire = 1 WHERE key LIKE $1";
    expect((await pools[0]!.query(sql, [`%${key}`])).rowCount).to.equal(1);
    expect((await limiter.count(key, LIMIT)).used).to.equal(1);
  });

  it("counts in a window that is longer than a minute, shared or by itself", async () => {
    const hour = 3_600;
    for (const url of [database.urls.command, "postgres://nobody:nothing@127.0.0.1:9/clinic"]) {
      const [limiter, key] = [limiterOf(url), randomUUID()];
      for (let used = 1; used <= 3; used += 1) {
        const counted = await limiter.count(key, 2, hour);
        expect(counted.used).to.equal(used);
        expect(counted.endsIn).to.be.within(3_590_000, 3_600_000);
      }
      expect((await limiter.count(key, 2, hour)).endsIn, "of whom is over").to.be.above(3_590_000);
      expect((await limiter.count(randomUUID(), 2)).endsIn, "of others").to.be.within(1, 60_000);
    }
  });

  it("counts by itself while Postgres is dead, quickly, and says so once", async () => {
    const [warnings, key] = [[] as unknown[], randomUUID()];
    const limiter = limiterOf("postgres://nobody:nothing@127.0.0.1:9/clinic", warnings);
    await limiter.count(key, LIMIT);
    const started = performance.now();
    const counts = await Promise.all(Array.from({ length: 50 }, () => limiter.count(key, LIMIT)));
    expect(performance.now() - started).to.be.below(1_000);
    expect(Math.max(...counts.map(({ used }) => used))).to.equal(51);
    expect(warnings).to.have.length(1);
  });

  it("refuses who is over the limit without asking Postgres, until the window ends or more is agreed", async () => {
    const key = randomUUID();
    const [one, other] = [limiterOf(database.urls.command), limiterOf(database.urls.command)];
    for (let used = 1; used <= 3; used += 1) expect((await one.count(key, 2)).used).to.equal(used);
    const again = await one.count(key, 2);
    expect(again.used).to.equal(3);
    expect(again.endsIn).to.be.within(1, 60_000);
    expect((await other.count(key, 2)).used, "in Postgres").to.equal(4);
    expect((await one.count(key, 10)).used, "with more agreed").to.equal(5);
  });
});
