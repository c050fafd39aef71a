import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import type { RateLimiter } from "../../../shared/rate-limit/limiter.ts";
import { eventually } from "../../support/eventually.ts";
import { type MutableProxy, startMutableProxy } from "../../support/mutable-proxy.ts";
import { burst, type LimiterWorld, startLimiterWorld } from "./limiters.ts";

const LIMIT = 25;
const REQUESTS = 120;

describe("rate limiter under a burst", function () {
  this.timeout(60_000);
  let world: LimiterWorld;
  let proxy: MutableProxy;
  let admin: pg.Client;
  /** Two processes, behind the proxy. */
  let both: RateLimiter[];

  beforeEach(async () => {
    world = await startLimiterWorld();
    proxy = await startMutableProxy(world.database.urls.command);
    admin = new pg.Client(world.database.urls.projection);
    await admin.connect();
    both = [world.limiterOf(proxy.url), world.limiterOf(proxy.url)];
    await knowEachOther();
  });
  afterEach(async () => {
    await admin.end();
    proxy.mend();
    await world.stop();
    await proxy.close();
  });

  /** Waits until each process has looked for others since both are registered. */
  async function knowEachOther(): Promise<void> {
    const seen = async () => {
      const sql = "SELECT count(*)::integer AS n, min(seen_at), max(seen_at) FROM rate_limit.process";
      return (await admin.query(sql)).rows[0];
    };
    const { max } = await eventually("both are registered", async () => {
      const found = await seen();
      return found.n === 2 && found;
    });
    await eventually("both have looked", async () => (await seen()).min > max);
  }

  /** Holds the counter of a key, as a transaction does that is slow to commit. */
  async function lock(key: string): Promise<void> {
    await admin.query("BEGIN");
    await admin.query("INSERT INTO rate_limit.counter VALUES ($1, 0, 1) ON CONFLICT DO NOTHING", [key]);
    await admin.query("SELECT FROM rate_limit.counter WHERE key = $1 FOR UPDATE", [key]);
  }

  async function waiting(): Promise<void> {
    await eventually("a count waits for the lock", async () => {
      const sql = "SELECT count(*)::integer AS n FROM pg_locks WHERE NOT granted";
      return (await admin.query(sql)).rows[0].n >= 1;
    });
  }

  it("exactly the limit passes while a counter row is locked for a moment", async () => {
    const key = randomUUID();
    await lock(key);
    const outcomes = burst(both, { key, limit: LIMIT, requests: REQUESTS });
    await waiting();
    await admin.query("ROLLBACK");
    const { passed, refused, ends } = await outcomes;
    expect({ passed, refused }).to.deep.equal({ passed: LIMIT, refused: REQUESTS - LIMIT });
    expect(ends.size, "ends of the window").to.equal(1);
  });

  it("exactly the limit passes while every answer of Postgres takes half a second", async () => {
    proxy.delay(500);
    const { passed, refused } = await burst(both, { key: randomUUID(), limit: LIMIT, requests: REQUESTS });
    expect({ passed, refused }).to.deep.equal({ passed: LIMIT, refused: REQUESTS - LIMIT });
  });

  it("no request passes uncounted while a row stays locked, and other tenants are not delayed", async () => {
    const [key, stranger] = [randomUUID(), randomUUID()];
    await lock(key);
    const started = performance.now();
    const outcomes = burst(both, { key, limit: LIMIT, requests: REQUESTS });
    await waiting();
    for (let n = 1; n <= 20; n += 1) expect((await both[0]!.count(stranger, LIMIT)).used).to.equal(n);
    const { passed, unavailable } = await outcomes;
    await admin.query("ROLLBACK");
    expect({ passed, unavailable }).to.deep.equal({ passed: 0, unavailable: REQUESTS });
    // Each request waits for one statement, for its own, and for the one that tells a slow row from an outage.
    expect(performance.now() - started, "a bound that leaves room for a busy machine").to.be.below(10_000);
    expect((await burst(both, { key, limit: LIMIT, requests: REQUESTS })).passed).to.equal(LIMIT);
  });

  it("while Postgres refuses connections, each process continues from the last shared count with its share", async () => {
    const key = randomUUID();
    expect((await burst(both, { key, limit: LIMIT, requests: 10 })).passed).to.equal(10);
    // Each process learns the count of both.
    const [first] = await Promise.all(both.map((limiter) => limiter.count(key, LIMIT)));
    await both[0]!.count(key, LIMIT);
    proxy.cut();
    const { passed, unavailable, ends } = await burst(both, { key, limit: LIMIT, requests: REQUESTS });
    expect(unavailable).to.equal(0);
    expect(13 + passed).to.be.within(LIMIT - 2, LIMIT + 1);
    expect([...ends], "the window goes on").to.deep.equal([first!.endsAt]);
    proxy.mend();
    // Each process adds what it has let through as soon as it finds Postgres working again.
    await eventually("all are counted in Postgres", async () => {
      await Promise.all(both.map((limiter) => limiter.count(randomUUID(), LIMIT)));
      const sql = "SELECT points FROM rate_limit.counter WHERE key = $1";
      return (await admin.query(sql, [key])).rows[0].points === 13 + passed;
    });
    const after = await burst(both, { key, limit: LIMIT, requests: REQUESTS });
    expect(after.passed).to.equal(Math.max(0, LIMIT - 13 - passed));
  });

  it("after an outage, a window of an hour is added with the length of an hour", async () => {
    const [key, hour] = [randomUUID(), 3_600];
    // The counter of a window that has ended: what the outage let through starts the next one.
    await admin.query("INSERT INTO rate_limit.counter VALUES ($1, 9, 1)", [key]);
    proxy.cut();
    expect((await both[0]!.count(key, LIMIT, hour)).used).to.be.at.most(LIMIT);
    proxy.mend();
    const { points, left } = await eventually("the request is counted in Postgres", async () => {
      await both[0]!.count(randomUUID(), LIMIT);
      const sql = `SELECT points, expire - extract(epoch FROM now()) * 1000 AS left
                     FROM rate_limit.counter WHERE key = $1 AND expire > 1`;
      return (await admin.query(sql, [key])).rows[0];
    });
    expect([points, Number(left) > 60_000]).to.deep.equal([1, true]);
  });

  it("processes share a new window while Postgres does not answer", async () => {
    proxy.mute();
    const key = randomUUID();
    const { passed, unavailable, ends } = await burst(both, { key, limit: LIMIT, requests: REQUESTS });
    expect([passed, unavailable]).to.deep.equal([24, 0]);
    expect(ends.size, "ends of the window").to.equal(1);
    const started = performance.now();
    await burst(both, { key: randomUUID(), limit: LIMIT, requests: REQUESTS });
    expect(performance.now() - started, "no request waits during an outage").to.be.below(1_000);
  });

  it("each process lets at least one request pass while Postgres is unavailable", async () => {
    proxy.cut();
    const key = randomUUID();
    expect((await both[0]!.count(key, 1)).used).to.equal(1);
    expect((await both[0]!.count(key, 1)).used).to.be.above(1);
  });

  it("the limiter works without Postgres from the start, and warns once", async () => {
    const warnings: unknown[] = [];
    const limiter = world.limiterOf("postgres://nobody:nothing@127.0.0.1:9/clinic", warnings);
    const { passed } = await burst([limiter], { key: randomUUID(), limit: 1_000, requests: 100 });
    expect([passed, warnings.length]).to.deep.equal([100, 1]);
  });
});
