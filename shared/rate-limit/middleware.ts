import type Koa from "koa";
import { toInstant } from "../domain/time/rfc3339.ts";
import { ApiError } from "../http/api-error.ts";
import type { RequestState } from "../http/app.ts";
import type { RateLimiter } from "./limiter.ts";

const LIMIT = "RateLimit-Limit";
const REMAINING = "RateLimit-Remaining";
const RESET = "RateLimit-Reset";

/**
 * Counts a request, and refuses the request if it exceeds the limit. Response headers contain the limit, the number
 * of remaining requests and the reset time. If several limits apply, the headers describe the limit with the fewest
 * remaining requests. Among equal limits, they describe the limit that resets last.
 *
 * @param limit requests per window
 * @param window length of the window in seconds. The default is a minute
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

function isNearer(remaining: number, reset: string, sent: Koa.Response): boolean {
  const less = remaining - Number(sent.get(REMAINING));
  return less < 0 || (less === 0 && reset > sent.get(RESET));
}

/** Returns true if a rate limit has already counted the request. */
export function isCounted(ctx: Koa.ParameterizedContext): boolean {
  return ctx.res.hasHeader(REMAINING);
}
