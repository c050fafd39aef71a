import type Koa from "koa";
import { toInstant } from "../domain/time/rfc3339.ts";
import { ApiError } from "../http/api-error.ts";
import type { RequestState } from "../http/app.ts";
import type { RateLimiter } from "./limiter.ts";

const LIMIT = "RateLimit-Limit";
const REMAINING = "RateLimit-Remaining";
const RESET = "RateLimit-Reset";

/**
 * Counts a request. The headers tell the limit, how many requests are left, and until when. If several limits count a
 * request, all three headers are those of the limit with the fewest requests left, or of the one that resets last.
 *
 * @param limit requests a window
 * @param window its length in seconds, a minute if absent
 * @throws {ApiError} 429 `rate_limit_exceeded`, 503 `rate_limit_unavailable`
 */
export async function enforce(
  limiter: RateLimiter,
  ctx: Koa.ParameterizedContext<RequestState>,
  key: string,
  limit: number,
  window?: number,
): Promise<void> {
  const { used, endsAt, endsIn } = await limiter.count(key, limit, window);
  const remaining = Math.max(0, limit - used);
  const reset = toInstant(endsAt);
  if (!isCounted(ctx) || isNearer(remaining, reset, ctx.response)) {
    ctx.set({ [LIMIT]: String(limit), [REMAINING]: String(remaining), [RESET]: reset });
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

/** Tells whether a limit has counted the request. */
export function isCounted(ctx: Koa.ParameterizedContext): boolean {
  return ctx.res.hasHeader(REMAINING);
}
