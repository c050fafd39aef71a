import type Koa from "koa";
import { toInstant } from "../domain/time/rfc3339.ts";
import { ApiError } from "../http/api-error.ts";
import type { RequestState } from "../http/app.ts";
import { toCallerAddress } from "../http/request.ts";
import { DEFAULT_WINDOW_SECONDS, getLimitName, type RateLimiter } from "./limiter.ts";
import type { Count } from "./shared-counter.ts";

const LIMIT_HEADER = "RateLimit-Limit";
const REMAINING_HEADER = "RateLimit-Remaining";
const RESET_HEADER = "RateLimit-Reset";

/**
 * Counts a request, and refuses the request if it exceeds the limit. See {@link applyCount}.
 *
 * @param windowSeconds length of the window in seconds. The default is a minute
 * @throws {ApiError} 429 `rate_limit_exceeded`, 503 `rate_limit_unavailable`
 */
export async function enforceRateLimit(
  limiter: RateLimiter,
  ctx: Koa.ParameterizedContext<RequestState>,
  key: string,
  limit: number,
  windowSeconds = DEFAULT_WINDOW_SECONDS,
): Promise<void> {
  applyCount(ctx, await limiter.count(key, limit, windowSeconds), key, limit, windowSeconds);
}

/**
 * Refuses a request if its count exceeds the limit. Sets response headers with the limit, the number of remaining
 * requests and the reset time. Also sets the headers `RateLimit` and `RateLimit-Policy` of the draft
 * `draft-ietf-httpapi-ratelimit-headers-10`, with the name of the limit. If several limits apply, the headers describe
 * the limit with the fewest remaining requests, or of these the limit that resets last.
 *
 * @throws {ApiError} 429 `rate_limit_exceeded`
 */
export function applyCount(
  ctx: Koa.ParameterizedContext<RequestState>,
  { used, endsAt, endsInMs }: Count,
  key: string,
  limit: number,
  windowSeconds = DEFAULT_WINDOW_SECONDS,
): void {
  const remainingCount = Math.max(0, limit - used);
  const resetAt = toInstant(endsAt);
  // The headers may have been sent if the response timed out.
  if (!ctx.res.headersSent && (!isCounted(ctx) || isTighter(remainingCount, resetAt, ctx.response))) {
    ctx.res.setHeader(LIMIT_HEADER, String(limit));
    ctx.res.setHeader(REMAINING_HEADER, String(remainingCount));
    ctx.res.setHeader(RESET_HEADER, resetAt);
    const policyName = getLimitName(key);
    ctx.res.setHeader("RateLimit-Policy", `"${policyName}";q=${limit};w=${windowSeconds}`);
    ctx.res.setHeader("RateLimit", `"${policyName}";r=${remainingCount};t=${Math.ceil(endsInMs / 1_000)}`);
  }
  if (used > limit) throw createRateLimitError(endsInMs);
}

/** Creates the error of a request that exceeds a limit. @param endsInMs time until the end of the window */
export function createRateLimitError(endsInMs: number): ApiError {
  const retryAfterSeconds = String(Math.max(1, Math.ceil(endsInMs / 1000)));
  return new ApiError(429, "rate_limit_exceeded", { headers: { "Retry-After": retryAfterSeconds } });
}

function isTighter(remainingCount: number, resetAt: string, response: Koa.Response): boolean {
  const difference = remainingCount - Number(response.get(REMAINING_HEADER));
  return difference < 0 || (difference === 0 && resetAt > response.get(RESET_HEADER));
}

export function isCounted(ctx: Koa.ParameterizedContext): boolean {
  return ctx.res.hasHeader(REMAINING_HEADER);
}

/** Seconds after which a refused caller may try again. Most requests take far less time. */
const RETRY_AFTER_SECONDS = 1;

/** Maximum number of requests without a credential that this process handles at the same time, for each address. */
const MAX_ADDRESS_REQUESTS = 20;

/**
 * Limits how many requests of each caller this process handles at the same time. A rate limit alone permits a burst of
 * requests, which would delay other callers.
 */
export class ConcurrencyLimiter {
  readonly #counts = new Map<string, number>();
  readonly #name: string;
  readonly #maxRequests: number;

  /** @param name name of the limit in response headers, such as `application-concurrency` */
  constructor(name: string, maxRequests: number) {
    this.#name = name;
    this.#maxRequests = maxRequests;
  }

  /**
   * Counts a request of a caller. The caller of this method must call {@link leave} when the request ends.
   *
   * @throws {ApiError} 429 `rate_limit_exceeded` if the caller already has the maximum number of requests in progress
   */
  enter(ctx: Koa.ParameterizedContext<RequestState>, caller: string): void {
    if ((this.#counts.get(caller) ?? 0) >= this.#maxRequests) {
      const endsInMs = RETRY_AFTER_SECONDS * 1_000;
      const count = { used: this.#maxRequests + 1, endsAt: Date.now() + endsInMs, endsInMs };
      applyCount(ctx, count, this.#name, this.#maxRequests, RETRY_AFTER_SECONDS);
    }
    this.reenter(caller);
  }

  /** Counts a request again after its wait, and never refuses it. */
  reenter(caller: string): void {
    this.#counts.set(caller, (this.#counts.get(caller) ?? 0) + 1);
  }

  leave(caller: string): void {
    const count = this.#counts.get(caller) ?? 0;
    if (count > 1) this.#counts.set(caller, count - 1);
    else this.#counts.delete(caller);
  }
}

/**
 * Limits the concurrent requests of each address, for routes that require no credential. Other routes have no such
 * limit, because many installations can share the address of a proxy. A request ends when its response was sent.
 */
export function limitAddressConcurrency(): Koa.Middleware<RequestState> {
  const limiter = new ConcurrencyLimiter("address-concurrency", MAX_ADDRESS_REQUESTS);
  return (ctx, next) => {
    const address = toCallerAddress(ctx.ip);
    limiter.enter(ctx, address);
    ctx.res.once("close", () => limiter.leave(address));
    return next();
  };
}
