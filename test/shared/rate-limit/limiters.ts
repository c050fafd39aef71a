import type pg from "pg";
import { pino } from "pino";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createRateLimiter, type RateLimiter } from "../../../shared/rate-limit/limiter.ts";
import type { Count } from "../../../shared/rate-limit/shared-counter.ts";
import { createMigratedDatabase } from "../../support/migrated-database.ts";
import { releaseLater } from "../../support/resources.ts";
import type { TestDatabase } from "../../support/stack.ts";

const logger = pino({ enabled: false });

/** A database with counters, and limiters that use it. Each limiter acts as a separate process. */
export interface LimiterWorld {
  database: TestDatabase;
  /** @param warnings receives the limiter's warnings */
  createLimiter(url: string, warnings?: unknown[]): RateLimiter & { pool: pg.Pool };
  stop(): Promise<void>;
}

export async function startLimiterWorld(): Promise<LimiterWorld> {
  const database = await createMigratedDatabase();
  const limiters: (RateLimiter & { pool: pg.Pool })[] = [];
  return {
    database,
    createLimiter(url, warnings = []) {
      const pool = createPool({ url, applicationName: "test", size: 4, statementTimeoutMs: 1_000, logger });
      const warn = (...args: unknown[]) => void warnings.push(args);
      const limiter = createRateLimiter(pool, Object.assign(Object.create(logger), { warn }));
      limiters.push({ ...limiter, pool });
      return { ...limiter, pool };
    },
    stop: releaseLater(async () => {
      for (const limiter of limiters) limiter.close();
      await Promise.all(limiters.map(({ pool }) => pool.end()));
      await database.drop();
    }),
  };
}

/** Numbers of requests that were permitted, over the limit, or not counted in time. */
export interface Outcomes {
  passedCount: number;
  refusedCount: number;
  unavailableCount: number;
  windowEnds: Set<number>;
}

/** Counts requests concurrently, distributed evenly over the limiters. Returns the numbers of outcomes. */
export async function sendBurst(
  limiters: readonly RateLimiter[],
  { key, limit, requestCount }: { key: string; limit: number; requestCount: number },
): Promise<Outcomes> {
  const countPromises = Array.from({ length: requestCount }, (_, index) =>
    (limiters[index % limiters.length] as RateLimiter)
      .count(key, limit)
      .catch((error: { code?: string }) => error.code),
  );
  const outcomes = await Promise.all(countPromises);
  const countedOutcomes = outcomes.filter((outcome): outcome is Count => typeof outcome === "object");
  const passedCount = countedOutcomes.filter(({ used }) => used <= limit).length;
  const unavailableCount = outcomes.filter((outcome) => outcome === "rate_limit_unavailable").length;
  if (countedOutcomes.length + unavailableCount !== requestCount) throw new Error(`unforeseen: ${outcomes}`);
  return {
    passedCount,
    unavailableCount,
    refusedCount: countedOutcomes.length - passedCount,
    windowEnds: new Set(countedOutcomes.map(({ endsAt }) => endsAt)),
  };
}
