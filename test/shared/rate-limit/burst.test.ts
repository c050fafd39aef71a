import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import type { RateLimiter } from "../../../shared/rate-limit/limiter.ts";
import { COUNT_TIMEOUT_MS } from "../../../shared/rate-limit/shared-counter.ts";
import { eventually } from "../../support/eventually.ts";
import { type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";
import { useResource } from "../../support/resources.ts";
import { sendBurst, startLimiterWorld } from "./limiters.ts";

const LIMIT = 25;
const REQUEST_COUNT = 120;

/**
 * Delay of each response of Postgres. Milliseconds. A new connection needs several responses. After 1,200 ms, a limiter
 * considers Postgres unavailable.
 */
const RESPONSE_DELAY_MS = 100;

describe("rate limiter under a burst", () => {
  const world = useResource(startLimiterWorld, "test");
  let proxy: FaultProxy;
  let adminClient: pg.Client;
  /** Limiters that act as two processes. They connect to Postgres through the proxy. */
  let limiters: RateLimiter[];

  beforeEach(async () => {
    proxy = await startFaultProxy(world.database.urls.command);
    adminClient = new pg.Client(world.database.urls.projection);
    await adminClient.connect();
    limiters = [];
    // Each process counts itself and one other process in its first heartbeat, so that no test waits for a second one.
    await adminClient.query("INSERT INTO rate_limit.process VALUES (gen_random_uuid(), now())");
    limiters.push(world.createLimiter(proxy.url));
    await waitUntilRegistered(2);
    await adminClient.query(
      "DELETE FROM rate_limit.process WHERE seen_at = (SELECT min(seen_at) FROM rate_limit.process)",
    );
    limiters.push(world.createLimiter(proxy.url));
    await waitUntilRegistered(2);
  });
  afterEach(async () => {
    await adminClient.end();
    proxy.restore();
  });

  async function waitUntilRegistered(processCount: number): Promise<void> {
    const sql = "SELECT FROM rate_limit.process";
    await eventually("the registration", async () => (await adminClient.query(sql)).rowCount === processCount);
  }

  /** Locks a counter, as a slow transaction does. */
  async function lockCounter(key: string): Promise<void> {
    await adminClient.query("BEGIN");
    await adminClient.query("INSERT INTO rate_limit.counter VALUES ($1, 0, 1) ON CONFLICT DO NOTHING", [key]);
    await adminClient.query("SELECT FROM rate_limit.counter WHERE key = $1 FOR UPDATE", [key]);
  }

  async function countLockWaits(): Promise<number> {
    return (await adminClient.query("SELECT count(*)::integer AS n FROM pg_locks WHERE NOT granted")).rows[0].n;
  }

  async function waitForLockedCount(): Promise<void> {
    await eventually("a count waits for the lock", async () => (await countLockWaits()) >= 1);
  }

  const sendAll = (key: string) => sendBurst(limiters, { key, limit: LIMIT, requestCount: REQUEST_COUNT });
  const expectedOutcomes = { passedCount: LIMIT, refusedCount: REQUEST_COUNT - LIMIT };

  it("the number of permitted requests equals the limit while a counter row is locked briefly", async () => {
    const key = randomUUID();
    await lockCounter(key);
    const outcomesPromise = sendAll(key);
    await waitForLockedCount();
    await adminClient.query("ROLLBACK");
    const outcomes = await outcomesPromise;
    expect(outcomes).to.include(expectedOutcomes);
    expect(outcomes.windowEnds.size, "ends of the window").to.equal(1);
  });

  it("the number of permitted requests equals the limit while every response of Postgres is slow", async () => {
    proxy.delay(RESPONSE_DELAY_MS);
    expect(await sendAll(randomUUID())).to.include(expectedOutcomes);
  });

  it("while a counter row stays locked, no uncounted request is permitted, and requests of other keys are not delayed", async () => {
    const [key, otherKey] = [randomUUID(), randomUUID()];
    await lockCounter(key);
    const startedAtMs = performance.now();
    const outcomesPromise = sendAll(key);
    await waitForLockedCount();
    for (let n = 1; n <= 20; n += 1) expect((await limiters[0]!.count(otherKey, LIMIT)).used).to.equal(n);
    const outcomes = await outcomesPromise;
    // On a busy machine, Postgres cancels a statement later than the caller gives up. It would still count its requests.
    await eventually("no count waits for the lock", async () => (await countLockWaits()) === 0);
    await adminClient.query("ROLLBACK");
    expect(outcomes).to.include({ passedCount: 0, unavailableCount: REQUEST_COUNT });
    // Each request waits for the previous batch, for its own batch, and for the probe that detects an outage.
    expect(performance.now() - startedAtMs, "a limit that a busy machine can meet").to.be.below(30_000);
    await eventually("requests of the key are counted again", () =>
      limiters[0]!.count(key, LIMIT).catch(() => undefined),
    );
    expect((await sendAll(key)).passedCount).to.equal(LIMIT - 1);
  });

  it("a locked counter row does not delay other keys whose requests arrive at the same time", async () => {
    const [key, ...otherKeys] = Array.from({ length: 9 }, () => randomUUID()) as [string, ...string[]];
    await lockCounter(key);
    const lockedCountPromise = limiters[0]!.count(key, LIMIT);
    let isLockedKeyCounted = false;
    lockedCountPromise.finally(() => (isLockedKeyCounted = true)).catch(() => undefined);
    const counts = await Promise.all(otherKeys.map((otherKey) => limiters[0]!.count(otherKey, LIMIT)));
    expect(counts.map(({ used }) => used)).to.deep.equal(Array(otherKeys.length).fill(1));
    expect(isLockedKeyCounted, "the request of the locked counter has ended").to.equal(false);
    await waitForLockedCount();
    await adminClient.query("ROLLBACK");
    expect((await lockedCountPromise).used).to.equal(1);
    const { rows } = await adminClient.query("SELECT points FROM rate_limit.counter WHERE key = ANY ($1)", [otherKeys]);
    expect(rows.map(({ points }) => points)).to.deep.equal(Array(otherKeys.length).fill(1));
  });

  it("while Postgres refuses connections, each process permits a share of the remaining requests", async () => {
    const key = randomUUID();
    expect((await sendBurst(limiters, { key, limit: LIMIT, requestCount: 10 })).passedCount).to.equal(10);
    // With these requests, each process learns the shared count.
    const [firstCount] = await Promise.all(limiters.map((limiter) => limiter.count(key, LIMIT)));
    await limiters[0]!.count(key, LIMIT);
    proxy.disconnect();
    const { passedCount, unavailableCount, windowEnds } = await sendAll(key);
    expect(unavailableCount).to.equal(0);
    expect(13 + passedCount).to.be.within(LIMIT - 2, LIMIT + 1);
    expect([...windowEnds], "the window goes on").to.deep.equal([firstCount!.endsAt]);
    proxy.restore();
    // Each process adds its uncounted requests when it finds Postgres available again.
    await eventually("all are counted in Postgres", async () => {
      await Promise.all(limiters.map((limiter) => limiter.count(randomUUID(), LIMIT)));
      const sql = "SELECT points FROM rate_limit.counter WHERE key = $1";
      return (await adminClient.query(sql, [key])).rows[0].points === 13 + passedCount;
    });
    const secondBurst = await sendAll(key);
    expect(secondBurst.passedCount).to.equal(Math.max(0, LIMIT - 13 - passedCount));
  });

  it("requests that were permitted during an outage are later counted in a window of the configured length", async () => {
    const [key, hourSeconds] = [randomUUID(), 3_600];
    // The window of this counter has ended, so the uncounted requests start a new window.
    await adminClient.query("INSERT INTO rate_limit.counter VALUES ($1, 9, 1)", [key]);
    proxy.disconnect();
    expect((await limiters[0]!.count(key, LIMIT, hourSeconds)).used).to.be.at.most(LIMIT);
    proxy.restore();
    const { points, left } = await eventually("the request is counted in Postgres", async () => {
      await limiters[0]!.count(randomUUID(), LIMIT);
      const sql = `SELECT points, expire - extract(epoch FROM now()) * 1000 AS left
                     FROM rate_limit.counter WHERE key = $1 AND expire > 1`;
      return (await adminClient.query(sql, [key])).rows[0];
    });
    expect([points, Number(left) > 60_000]).to.deep.equal([1, true]);
  });

  it("requests that were counted before an outage can be released during the outage", async () => {
    const key = randomUUID();
    const count = await limiters[0]!.count(key, LIMIT);
    proxy.disconnect();
    await limiters[0]!.release(key, count, 60);
    proxy.restore();
    await eventually("the release is counted in Postgres", async () => {
      await limiters[0]!.count(key, LIMIT).then((added) => limiters[0]!.release(key, added, 60));
      const sql = "SELECT points FROM rate_limit.counter WHERE key = $1";
      return (await adminClient.query(sql, [key])).rows[0].points === 0;
    });
  });

  it("all processes use the same new window while Postgres does not respond", async () => {
    proxy.mute();
    const key = randomUUID();
    const { passedCount, unavailableCount, windowEnds } = await sendAll(key);
    expect([passedCount, unavailableCount]).to.deep.equal([24, 0]);
    expect(windowEnds.size, "ends of the window").to.equal(1);
    const durationsMs: number[] = [];
    for (let burst = 0; burst < 3; burst += 1) {
      const startedAtMs = performance.now();
      await sendAll(randomUUID());
      durationsMs.push(performance.now() - startedAtMs);
    }
    expect(Math.min(...durationsMs), "no request waits during an outage").to.be.below(COUNT_TIMEOUT_MS);
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
    const { passedCount } = await sendBurst([limiter], { key: randomUUID(), limit: 1_000, requestCount: 100 });
    expect([passedCount, warnings.length]).to.deep.equal([100, 1]);
  });
});
