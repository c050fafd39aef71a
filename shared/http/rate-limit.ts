import type Koa from "koa";
import pg from "pg";
import { RateLimiterMemory, RateLimiterPostgres, RateLimiterRes } from "rate-limiter-flexible";
import type { ClinicState } from "../partner-api/access.ts";
import type { Logger } from "../runtime/logger.ts";
import { toInstant } from "../time/rfc3339.ts";
import { ApiError } from "./api-error.ts";
import type { RequestState } from "./app.ts";
import { createCircuit } from "./circuit.ts";

/** Counts requests in windows of a minute. */
export interface RateLimiter {
  /**
   * Counts one request.
   *
   * @returns how many the key's current window has had, this one included, and how long it still lasts in milliseconds
   */
  count(key: string): Promise<{ used: number; endsIn: number }>;
}

/** Length of a window. Seconds. */
const WINDOW = 60;

/** More than anybody's limit: what is too much is judged here, key by key, not by the library. */
const NO_LIMIT = 1_000_000_000;

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
    duration: WINDOW,
    insuranceLimiter: new RateLimiterMemory({ keyPrefix: "", points: NO_LIMIT, duration: WINDOW }),
  });
  return {
    async count(key) {
      const { consumedPoints, msBeforeNext } = await limiter.consume(key).catch((error: unknown) => {
        if (error instanceof RateLimiterRes) return error;
        throw error;
      });
      return { used: consumedPoints, endsIn: msBeforeNext };
    },
  };
}

/**
 * Counts a request and says in the headers how many are left and until when.
 *
 * @param limit requests a minute
 * @throws {ApiError} 429 `rate_limit_exceeded`
 */
export async function enforce(
  limiter: RateLimiter,
  ctx: Koa.ParameterizedContext<RequestState>,
  key: string,
  limit: number,
): Promise<void> {
  const { used, endsIn } = await limiter.count(key);
  ctx.set("RateLimit-Remaining", String(Math.max(0, limit - used)));
  ctx.set("RateLimit-Reset", toInstant(ctx.state.now + endsIn));
  if (used > limit) {
    const retryAfter = String(Math.max(1, Math.ceil(endsIn / 1000)));
    throw new ApiError(429, "rate_limit_exceeded", { headers: { "Retry-After": retryAfter } });
  }
}

/** Holds a partner to the rate agreed for its installation, over both services. Stands right after `partnerAccess`. */
export function rateLimit({ limiter }: { limiter: RateLimiter }): Koa.Middleware<ClinicState> {
  return async (ctx, next) => {
    const { applicationId, clinicId, installation } = ctx.state;
    await enforce(limiter, ctx, `installation ${applicationId} ${clinicId}`, installation.rateLimitPerMinute);
    await next();
  };
}
