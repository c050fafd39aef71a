import type Koa from "koa";
import { ApiError } from "../http/api-error.ts";
import type { RequestState } from "../http/app.ts";
import { callerAddress } from "../http/caller-address.ts";
import type { RateLimiter } from "../rate-limit/limiter.ts";
import { enforce, isCounted } from "../rate-limit/middleware.ts";
import type { ClinicState, PartnerState } from "./access.ts";

/**
 * Requests a minute from one address that show no valid token: exchanges and what is refused for want of one. Many
 * partners may share an address, so that this is generous; those who do show a token are never held up by it.
 */
export const ADDRESS_PER_MINUTE = 1_200;

/** Requests a minute of one application that show a valid token and are refused before an installation counts them. */
export const REFUSED_PER_MINUTE = 600;

/**
 * Resets of its sandbox in an hour, for each application. One is an event of about 11 KB that the log keeps for good;
 * test runs that reset before each of some dozens of cases go through.
 */
export const RESETS_PER_HOUR = 100;

const HOUR_SECONDS = 3_600;

/** Everything below the bases. */
const PARTNER_PATH = /^\/(sandbox|production)\/v1(\/|$)/;

/** Holds a partner to the rate agreed for its installation, over both services. Stands right after `partnerAccess`. */
export function limitInstallation(limiter: RateLimiter): Koa.Middleware<ClinicState> {
  return async (ctx, next) => {
    const { applicationId, clinicId, installation } = ctx.state;
    await enforce(limiter, ctx, `installation ${applicationId} ${clinicId}`, installation.rateLimitPerMinute);
    await next();
  };
}

/** Holds an application to the resets of its sandbox. Stands after `limitInstallation`. */
export function limitResets(limiter: RateLimiter): Koa.Middleware<ClinicState> {
  return async (ctx, next) => {
    await enforce(limiter, ctx, `reset ${ctx.state.applicationId}`, RESETS_PER_HOUR, HOUR_SECONDS);
    await next();
  };
}

/** Holds an address to a rate, for an operation that asks for no token. */
export function limitAddress(limiter: RateLimiter): Koa.Middleware<RequestState> {
  return async (ctx, next) => {
    await enforceAddress(limiter, ctx);
    await next();
  };
}

/**
 * Counts the requests to the partner API that are refused before an operation has counted them: by application where
 * the token was good, else by address. So every answer but an outage's says how many are left, and guessing at
 * tokens, clinics and paths comes to an end.
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
 * Counts a request that is refused: by application where its token was good, else by address.
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
