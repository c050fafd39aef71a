import type Koa from "koa";
import type { RequestState } from "../http/app.ts";
import { toCallerAddress } from "../http/request.ts";
import { applyCount } from "./middleware.ts";

/** Seconds after which a refused caller may try again. Most requests take far less time. */
const RETRY_AFTER_SECONDS = 1;

/** Maximum number of requests without a credential that this process handles at the same time, for each address. */
const MAX_ADDRESS_REQUESTS = 20;

/**
 * Limits how many requests of each caller this process handles at the same time. A rate limit alone permits a burst,
 * whose requests would delay those of all other callers.
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

  /** Counts a request that has left to wait, even if the caller exceeds the maximum. */
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
