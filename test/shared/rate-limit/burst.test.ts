import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import type { RateLimiter } from "../../../shared/rate-limit/limiter.ts";
import { eventually } from "../../support/eventually.ts";
import { type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";
import { type LimiterWorld, sendBurst, startLimiterWorld } from "./limiters.ts";

const LIMIT = 25;
const REQUEST_COUNT = 120;

describe("rate limiter under a burst", function () {
  this.timeout(60_000);
  let world: LimiterWorld;
  let proxy: FaultProxy;
  let admin: pg.Client;
  /** Limiters of two processes. Their connections to Postgres go through the proxy. */
  let limiters: RateLimiter[];

  beforeEach(async () => {
    world = await startLimiterWorld();
    proxy = await startFaultProxy(world.database.urls.command);
    admin = new pg.Client(world.database.urls.projection);
    await admin.connect();
    limiters = [world.createLimiter(proxy.url), world.createLimiter(proxy.url)];
    await waitUntilRegistered();
  });
  afterEach(async () => {
    await admin.end();
    proxy.restore();
    await world.stop();
    await proxy.close();
  });

  /** Waits until both processes are registered and have then sent another heartbeat. */
  async function waitUntilRegistered(): Promise<void> {
    const readHeartbeats = async () => {
      const sql = "SELECT count(*)::integer AS n, min(seen_at), max(seen_at) FROM rate_limit.process";
      return (await admin.query(sql)).rows[0];
    };
    const { max } = await eventually("both are registered", async () => {
      const heartbeats = await readHeartbeats();
      return heartbeats.n === 2 && heartbeats;
    });
    await eventually("both have looked", async () => (await readHeartbeats()).min > max);
  }

  /** Locks the counter of a key, like a slow transaction. */
  async function lock(key: string): Promise<void> {
    await admin.query("BEGIN");
    await admin.query("INSERT INTO rate_limit.counter VALUES ($1, 0, 1) ON CONFLICT DO NOTHING", [key]);
    await admin.query("SELECT FROM rate_limit.counter WHERE key = $1 FOR UPDATE", [key]);
  }

  async function waitForLockedCount(): Promise<void> {
    await eventually("a count waits for the lock", async () => {
      const sql = "SELECT count(*)::integer AS n FROM pg_locks WHERE NOT granted";
      return (await admin.query(sql)).rows[0].n >= 1;
    });
  }

  it("the number of permitted requests equals the limit while a counter row is locked briefly", async () => {
    const key = randomUUID();
    await lock(key);
    const outcomesPromise = sendBurst(limiters, { key, limit: LIMIT, requestCount: REQUEST_COUNT });
    await waitForLockedCount();
    await admin.query("ROLLBACK");
    const { passed, refused, windowEnds } = await outcomesPromise;
    expect({ passed, refused }).to.deep.equal({ passed: LIMIT, refused: REQUEST_COUNT - LIMIT });
    expect(windowEnds.size, "ends of the window").to.equal(1);
  });

  it("the number of permitted requests equals the limit while every response of Postgres takes half a second", async () => {
    proxy.delay(500);
    const { passed, refused } = await sendBurst(limiters, {
      key: randomUUID(),
      limit: LIMIT,
      requestCount: REQUEST_COUNT,
    });
    expect({ passed, refused }).to.deep.equal({ passed: LIMIT, refused: REQUEST_COUNT - LIMIT });
  });

  it("while a counter row stays locked, no uncounted request is permitted, and requests of other keys are not delayed", async () => {
    const [key, otherKey] = [randomUUID(), randomUUID()];
    await lock(key);
    const startedAtMs = performance.now();
    const outcomesPromise = sendBurst(limiters, { key, limit: LIMIT, requestCount: REQUEST_COUNT });
    await waitForLockedCount();
    for (let n = 1; n <= 20; n += 1) expect((await limiters[0]!.count(otherKey, LIMIT)).used).to.equal(n);
    const { passed, unavailable } = await outcomesPromise;
    await admin.query("ROLLBACK");
    expect({ passed, unavailable }).to.deep.equal({ passed: 0, unavailable: REQUEST_COUNT });
    // Each request waits for the previous batch, for its own batch, and for the probe that detects an outage.
    expect(performance.now() - startedAtMs, "a limit that a busy machine can meet").to.be.below(10_000);
    await eventually("requests of the key are counted again", () =>
      limiters[0]!.count(key, LIMIT).catch(() => undefined),
    );
    expect((await sendBurst(limiters, { key, limit: LIMIT, requestCount: REQUEST_COUNT })).passed).to.equal(LIMIT - 1);
  });

  it("while Postgres refuses connections, each process permits a share of the remaining requests", async () => {
    const key = randomUUID();
    expect((await sendBurst(limiters, { key, limit: LIMIT, requestCount: 10 })).passed).to.equal(10);
    // With these requests, each process learns the shared count.
    const [firstCount] = await Promise.all(limiters.map((limiter) => limiter.count(key, LIMIT)));
    await limiters[0]!.count(key, LIMIT);
    proxy.disconnect();
    const { passed, unavailable, windowEnds } = await sendBurst(limiters, {
      key,
      limit: LIMIT,
      requestCount: REQUEST_COUNT,
    });
    expect(unavailable).to.equal(0);
    expect(13 + passed).to.be.within(LIMIT - 2, LIMIT + 1);
    expect([...windowEnds], "the window goes on").to.deep.equal([firstCount!.endsAt]);
    proxy.restore();
    // Each process adds its uncounted requests when it finds Postgres available again.
    await eventually("all are counted in Postgres", async () => {
      await Promise.all(limiters.map((limiter) => limiter.count(randomUUID(), LIMIT)));
      const sql = "SELECT points FROM rate_limit.counter WHERE key = $1";
      return (await admin.query(sql, [key])).rows[0].points === 13 + passed;
    });
    const secondBurst = await sendBurst(limiters, { key, limit: LIMIT, requestCount: REQUEST_COUNT });
    expect(secondBurst.passed).to.equal(Math.max(0, LIMIT - 13 - passed));
  });

  it("requests that were permitted during an outage are later counted in a window of the configured length", async () => {
    const [key, hourSeconds] = [randomUUID(), 3_600];
    // The window of this counter has ended, so the uncounted requests start a new window.
    await admin.query("INSERT INTO rate_limit.counter VALUES ($1, 9, 1)", [key]);
    proxy.disconnect();
    expect((await limiters[0]!.count(key, LIMIT, hourSeconds)).used).to.be.at.most(LIMIT);
    proxy.restore();
    const { points, left } = await eventually("the request is counted in Postgres", async () => {
      await limiters[0]!.count(randomUUID(), LIMIT);
      const sql = `SELECT points, expire - extract(epoch FROM now()) * 1000 AS left
                     FROM rate_limit.counter WHERE key = $1 AND expire > 1`;
      return (await admin.query(sql, [key])).rows[0];
    });
    expect([points, Number(left) > 60_000]).to.deep.equal([1, true]);
  });

  it("all processes use the same new window while Postgres does not respond", async () => {
    proxy.mute();
    const key = randomUUID();
    const { passed, unavailable, windowEnds } = await sendBurst(limiters, {
      key,
      limit: LIMIT,
      requestCount: REQUEST_COUNT,
    });
    expect([passed, unavailable]).to.deep.equal([24, 0]);
    expect(windowEnds.size, "ends of the window").to.equal(1);
    const startedAtMs = performance.now();
    await sendBurst(limiters, { key: randomUUID(), limit: LIMIT, requestCount: REQUEST_COUNT });
    expect(performance.now() - startedAtMs, "no request waits during an outage").to.be.below(1_000);
  });

  it("each process permits at least one request while Postgres is unavailable", async () => {
    proxy.disconnect();
    const key = randomUUID();
    expect((await limiters[0]!.count(key, 1)).used).to.equal(1);
    expect((await limiters[0]!.count(key, 1)).used).to.be.above(1);
  });

  it("a limiter works if Postgres is unavailable from the start, and warns once", async () => {
    const warnings: unknown[] = [];
    const limiter = world.createLimiter("postgres://nobody:nothing@127.0.0.1:9/clinic", warnings);
    const { passed } = await sendBurst([limiter], { key: randomUUID(), limit: 1_000, requestCount: 100 });
    expect([passed, warnings.length]).to.deep.equal([100, 1]);
  });
});
