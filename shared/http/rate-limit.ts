import type Koa from "koa";
import pg from "pg";
import { RateLimiterMemory, RateLimiterPostgres, RateLimiterRes } from "rate-limiter-flexible";
import type { Logger } from "../runtime/logger.ts";
import { toInstant } from "../time/rfc3339.ts";
import { ApiError } from "./api-error.ts";
import type { RequestState } from "./app.ts";
import { createCircuit } from "./circuit.ts";

/** Counts requests in windows, each from the first request on. */
export interface RateLimiter {
  /**
   * Counts one request. Once a window has had more than the limit, it is known to be over and no longer counted on.
   *
   * @param key at most 200 characters
   * @param limit requests a window
   * @param window its length in seconds, a minute where absent; a key always has the same
   * @returns how many the key's current window has had, this one included, and how long it still lasts in milliseconds
   */
  count(key: string, limit: number, window?: number): Promise<{ used: number; endsIn: number }>;
}

/** Length of a window that is not said to be longer. Seconds. */
const MINUTE = 60;

/** More than anybody's limit: what is too much is judged here, key by key, not by the library. */
const NO_LIMIT = 1_000_000_000;

/** So many keys that are over their limit are remembered. */
const MOST_OVER = 10_000;

const REMAINING = "RateLimit-Remaining";
const RESET = "RateLimit-Reset";

/** The shared count is had within this, or this process counts for itself. Milliseconds. */
const ANSWER_WITHIN = 400;

/**
 * A limiter whose counts are shared by all processes, in Postgres. While Postgres is dead, slow or not yet migrated,
 * each process counts for itself, so that the API goes on.
 */
export function createRateLimiter(pool: pg.Pool, logger: Logger): RateLimiter {
  const circuit = createCircuit({
    answerWithin: ANSWER_WITHIN,
    onFailure: (error) => logger.warn({ error }, "rate limits are counted by this process alone"),
  });
  const limiter = new RateLimiterPostgres({
    // The limiter reckons with bigints as text, as pg reads them by itself.
    storeClient: {
      query: (query: pg.QueryConfig) => circuit(() => pool.query({ ...query, types: pg.types })),
    },
    storeType: "client",
    schemaName: "rate_limit",
    tableName: "counter",
    tableCreated: true,
    keyPrefix: "",
    points: NO_LIMIT,
    duration: MINUTE,
    insuranceLimiter: new RateLimiterMemory({ keyPrefix: "", points: NO_LIMIT, duration: MINUTE }),
  });
  // A flood is refused from memory, so that it reaches neither Postgres nor the requests of others that wait for it.
  const over = new Map<string, { used: number; endsAt: number }>();
  return {
    async count(key, limit, window = MINUTE) {
      const known = over.get(key);
      if (known && known.used > limit && known.endsAt > performance.now()) {
        return { used: known.used, endsIn: known.endsAt - performance.now() };
      }
      over.delete(key);
      const { consumedPoints: used, msBeforeNext: endsIn } = await limiter
        .consume(key, 1, { customDuration: window })
        .catch(counted);
      if (used > limit) {
        over.set(key, { used, endsAt: performance.now() + endsIn });
        for (const oldest of over.keys()) {
          if (over.size <= MOST_OVER) break;
          over.delete(oldest);
        }
      }
      return { used, endsIn };
    },
  };
}

/** The library throws what it counted, too, where that is over its own limit. */
function counted(thrown: unknown): RateLimiterRes {
  if (thrown instanceof RateLimiterRes) return thrown;
  throw thrown;
}

/**
 * Counts a request and says in the headers how many are left and until when; of several limits, the nearest, and of
 * two as near the one that holds longer.
 *
 * @param limit requests a window
 * @param window its length in seconds, a minute where absent
 * @throws {ApiError} 429 `rate_limit_exceeded`
 */
export async function enforce(
  limiter: RateLimiter,
  ctx: Koa.ParameterizedContext<RequestState>,
  key: string,
  limit: number,
  window?: number,
): Promise<void> {
  const { used, endsIn } = await limiter.count(key, limit, window);
  const remaining = Math.max(0, limit - used);
  const reset = toInstant(ctx.state.now + endsIn);
  if (!isCounted(ctx) || isNearer(remaining, reset, ctx.response)) {
    ctx.set(REMAINING, String(remaining));
    ctx.set(RESET, reset);
  }
  if (used > limit) {
    const retryAfter = String(Math.max(1, Math.ceil(endsIn / 1000)));
    throw new ApiError(429, "rate_limit_exceeded", { headers: { "Retry-After": retryAfter } });
  }
}

function isNearer(remaining: number, reset: string, told: Koa.Response): boolean {
  const less = remaining - Number(told.get(REMAINING));
  return less < 0 || (less === 0 && reset > told.get(RESET));
}

/** Whether some limit has counted the request. */
export function isCounted(ctx: Koa.ParameterizedContext): boolean {
  return ctx.res.hasHeader(REMAINING);
}
