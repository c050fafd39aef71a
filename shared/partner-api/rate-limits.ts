import type Koa from "koa";
import { ApiError } from "../http/api-error.ts";
import type { RequestState } from "../http/app.ts";
import { callerAddress } from "../http/caller-address.ts";
import type { RateLimiter } from "../rate-limit/limiter.ts";
import { enforce, isCounted } from "../rate-limit/middleware.ts";
import type { ClinicState, PartnerState } from "./access.ts";

/**
 * Requests per minute and address without a valid token: token exchanges and refused requests. The limit is generous,
 * because many partners may share an address. It never applies to requests with a valid token.
 */
export const ADDRESS_PER_MINUTE = 1_200;

/** Refused requests per minute and application with a valid token, if no installation has counted them. */
export const REFUSED_PER_MINUTE = 600;

/**
 * Sandbox resets per hour and application. Each reset is an event of about 11 KB that the log keeps. Test runs that
 * reset before each of some dozens of cases stay below the limit.
 */
export const RESETS_PER_HOUR = 100;

const HOUR_SECONDS = 3_600;

/** Paths below the bases of both environments. */
const PARTNER_PATH = /^\/(sandbox|production)\/v1(\/|$)/;

/** Enforces the installation's agreed rate over both services. Must run directly after `partnerAccess`. */
export function limitInstallation(limiter: RateLimiter): Koa.Middleware<ClinicState> {
  return async (ctx, next) => {
    const { applicationId, clinicId, installation } = ctx.state;
    await enforce(limiter, ctx, `installation ${applicationId} ${clinicId}`, installation.rateLimitPerMinute);
    await next();
  };
}

/** Enforces the limit of sandbox resets. Must run after `limitInstallation`. */
export function limitResets(limiter: RateLimiter): Koa.Middleware<ClinicState> {
  return async (ctx, next) => {
    await enforce(limiter, ctx, `reset ${ctx.state.applicationId}`, RESETS_PER_HOUR, HOUR_SECONDS);
    await next();
  };
}

/** Enforces the rate of an address, for an operation that requires no token. */
export function limitAddress(limiter: RateLimiter): Koa.Middleware<RequestState> {
  return async (ctx, next) => {
    await enforceAddress(limiter, ctx);
    await next();
  };
}

/**
 * Counts requests to the partner API that are refused before an operation counted them: by application if the token
 * was valid, otherwise by address. So all responses except those of an outage carry the limits, and guessing tokens,
 * clinics and paths is limited.
 */
export function countRefusals(limiter: RateLimiter): Koa.Middleware<RequestState & Partial<PartnerState>> {
  return async (ctx, next) => {
    if (!PARTNER_PATH.test(ctx.path)) return next();
    try {
      await next();
      if (ctx.status === 404 && ctx.body === undefined) throw new ApiError(404, "not_found");
    } catch (error) {
      const refused = error instanceof ApiError && error.status < 500;
      if (refused && !isCounted(ctx)) await countRefused(limiter, ctx);
      throw error;
    }
  };
}

/**
 * Counts a refused request: by application if its token was valid, otherwise by address.
 *
 * @throws {ApiError} 429 `rate_limit_exceeded`
 */
export async function countRefused(
  limiter: RateLimiter,
  ctx: Koa.ParameterizedContext<RequestState & Partial<PartnerState>>,
): Promise<void> {
  const { applicationId } = ctx.state;
  if (applicationId === undefined) await enforceAddress(limiter, ctx);
  else await enforce(limiter, ctx, `refused ${applicationId}`, REFUSED_PER_MINUTE);
}

function enforceAddress(limiter: RateLimiter, ctx: Koa.ParameterizedContext<RequestState>): Promise<void> {
  return enforce(limiter, ctx, `address ${callerAddress(ctx.ip)}`, ADDRESS_PER_MINUTE);
}
