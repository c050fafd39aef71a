import type Koa from "koa";
import { ApiError, createUnavailableError } from "../http/api-error.ts";
import type { RequestState } from "../http/app.ts";
import { toCallerAddress } from "../http/request.ts";
import { requireRoute } from "../http/router.ts";
import type { RateLimiter } from "../rate-limit/limiter.ts";
import { applyCount, enforceRateLimit, isCounted, limitAddressConcurrency } from "../rate-limit/middleware.ts";
import { createBatcher, QueueFullError } from "../runtime/batches.ts";
import { type ClinicState, hasClinic, type PartnerState } from "./access.ts";

/**
 * Maximum number of requests without a valid token, per minute and address. Token exchanges and refused requests count;
 * requests with a valid token do not. The limit is high, because many partners may share an address.
 */
export const MAX_ADDRESS_REQUESTS_PER_MINUTE = 1_200;

/** Maximum number of token exchanges, per minute, client id and address. */
export const MAX_EXCHANGES_PER_MINUTE = 30;

/**
 * Maximum number of refused requests with a valid token, per minute and application. Requests that count against an
 * installation's limit do not count here.
 */
export const MAX_REFUSED_REQUESTS_PER_MINUTE = 600;

/**
 * Maximum number of authorized requests that name no clinic, per minute and application. Such requests count against no
 * installation's limit.
 */
export const MAX_APPLICATION_REQUESTS_PER_MINUTE = 120;

/**
 * Maximum number of sandbox resets, per hour and application. Each reset permanently adds an event of about 11 KB to
 * the log. The limit is sufficient for a test run that resets the sandbox before each of 100 test cases.
 */
export const MAX_RESETS_PER_HOUR = 100;

/** Maximum number of wrong link codes, per hour and installation. */
export const MAX_WRONG_CODES_PER_HOUR = 10;

/** Maximum number of an installation's link codes that wait in this process to be examined. */
const MAX_WAITING_CODES = 50;

const HOUR_SECONDS = 3_600;

const PARTNER_PATH = /^\/(sandbox|production)\/v1(\/|$)/;

/**
 * Enforces the agreed rate limit of the caller's installation, or the limit of the application if the request names no
 * clinic. The command and query-api services share one count. Must run directly after `requirePartnerAccess`.
 */
export function limitCaller(limiter: RateLimiter): Koa.Middleware<PartnerState> {
  return async (ctx, next) => {
    await enforceRateLimit(limiter, ctx, ...getCallerLimit(ctx.state));
    await next();
  };
}

/**
 * Refuses a request whose caller is known to have exceeded the rate limit of {@link limitCaller}. Counts nothing and
 * sends no statement to Postgres.
 *
 * @throws {ApiError} 429 `rate_limit_exceeded`
 */
export function refuseKnownExcess(limiter: RateLimiter, ctx: Koa.ParameterizedContext<PartnerState>): void {
  const [key, maxRequests] = getCallerLimit(ctx.state);
  const count = limiter.findExcess(key, maxRequests);
  if (count) applyCount(ctx, count, key, maxRequests);
}

function getCallerLimit(state: PartnerState): [key: string, maxRequests: number] {
  return hasClinic(state)
    ? [`installation ${state.applicationId} ${state.clinicId}`, state.installation.rateLimitPerMinute]
    : [`application ${state.applicationId}`, MAX_APPLICATION_REQUESTS_PER_MINUTE];
}

/** Enforces the rate limit of sandbox resets. Must run after `limitCaller`. */
export function limitResets(limiter: RateLimiter): Koa.Middleware<ClinicState> {
  return async (ctx, next) => {
    await enforceRateLimit(limiter, ctx, `reset ${ctx.state.applicationId}`, MAX_RESETS_PER_HOUR, HOUR_SECONDS);
    await next();
  };
}

/**
 * Limits the wrong link codes of an installation, so that nobody can guess a code. Counts each code before it is
 * checked, and stops counting it if it is correct. After the last permitted wrong code, correct codes are refused too.
 * Checks codes of an installation one at a time. Otherwise, many correct codes sent at once would exceed the limit.
 */
export function limitWrongCodes(limiter: RateLimiter): Koa.Middleware<ClinicState> {
  const addToQueue = createBatcher<() => Promise<void>, void>({ maxWaitingItems: MAX_WAITING_CODES, maxBatchSize: 1 });
  return async (ctx, next) => {
    const { applicationId, clinicId } = ctx.state;
    const key = `link-code ${applicationId} ${clinicId}`;
    const examine = async () => {
      const count = await limiter.count(key, MAX_WRONG_CODES_PER_HOUR, HOUR_SECONDS);
      const apply = () => applyCount(ctx, count, key, MAX_WRONG_CODES_PER_HOUR, HOUR_SECONDS);
      if (count.used > MAX_WRONG_CODES_PER_HOUR) apply();
      let isWrong = false;
      try {
        await next();
      } catch (error) {
        isWrong = error instanceof ApiError && error.code === "link_code_invalid";
        throw error;
      } finally {
        if (isWrong) apply();
        else await limiter.release(key, count, HOUR_SECONDS);
      }
    };
    try {
      await addToQueue(key, examine, async ([run]) => [await run?.()]);
    } catch (error) {
      if (!(error instanceof QueueFullError)) throw error;
      throw createUnavailableError("rate_limit_unavailable", error, 1);
    }
  };
}

/** Enforces the limits of the caller's address, for an operation that requires no token. */
export function limitAddress(limiter: RateLimiter): Koa.Middleware<RequestState> {
  const limitConcurrency = limitAddressConcurrency();
  return (ctx, next) =>
    limitConcurrency(ctx as Koa.Context, async () => {
      await enforceAddressLimit(limiter, ctx);
      await next();
    });
}

/**
 * Counts refused requests that no other rate limit has counted: by application if the token was valid, otherwise by
 * address. This limits attempts to guess tokens, clinics and paths. All responses therefore contain rate limit headers,
 * unless the request failed before it was counted.
 */
export function countRefusals(limiter: RateLimiter): Koa.Middleware<RequestState & Partial<PartnerState>> {
  return async (ctx, next) => {
    if (!PARTNER_PATH.test(ctx.path)) return next();
    try {
      await next();
      requireRoute(ctx);
    } catch (error) {
      const isRefusal = error instanceof ApiError && error.status < 500;
      if (isRefusal && !isCounted(ctx)) await countRefusedRequest(limiter, ctx);
      throw error;
    }
  };
}

/**
 * Counts a refused request against the application's limit if the token was valid, otherwise against the address's
 * limit.
 *
 * @throws {ApiError} 429 `rate_limit_exceeded`
 */
export async function countRefusedRequest(
  limiter: RateLimiter,
  ctx: Koa.ParameterizedContext<RequestState & Partial<PartnerState>>,
): Promise<void> {
  const { applicationId } = ctx.state;
  if (applicationId === undefined) await enforceAddressLimit(limiter, ctx);
  else await enforceRateLimit(limiter, ctx, `refused ${applicationId}`, MAX_REFUSED_REQUESTS_PER_MINUTE);
}

function enforceAddressLimit(limiter: RateLimiter, ctx: Koa.ParameterizedContext<RequestState>): Promise<void> {
  return enforceRateLimit(limiter, ctx, `address ${toCallerAddress(ctx.ip)}`, MAX_ADDRESS_REQUESTS_PER_MINUTE);
}
