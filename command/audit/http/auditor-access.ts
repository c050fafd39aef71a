import { createHash } from "node:crypto";
import type Koa from "koa";
import { RateLimiterMemory, RateLimiterRes } from "rate-limiter-flexible";
import type { Auditor } from "../../../shared/domain/audit/auditor.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import type { RequestState } from "../../../shared/http/app.ts";
import { callerAddress } from "../../../shared/http/caller-address.ts";
import { authenticate } from "../access/authenticate.ts";
import { type IsVisible, visibleTo } from "../access/visibility.ts";

/** State of an auditor's request. */
export interface AuditorState extends RequestState {
  auditor: Auditor;
  isVisible: IsVisible;
}

/** Maximum number of requests per minute of one auditor. */
const REQUESTS_PER_MINUTE = 240;

/**
 * Maximum number of invalid credentials per minute from one address. Each costs a read of the event log. Guessing a
 * credential is infeasible, so more are a flood that must not reach the log.
 */
const MAX_REFUSED_PER_MINUTE = 300;

/**
 * Maximum number of valid credentials that are remembered. Their holders are not blocked by a flood from the same
 * address.
 */
const MAX_KNOWN_CREDENTIALS = 1_000;

/**
 * Requires an auditor's credential, the method GET, and a request rate below the limit. Each process counts
 * separately.
 */
export function auditorAccess(log: EventLog): Koa.Middleware<AuditorState> {
  const limiter = new RateLimiterMemory({ points: REQUESTS_PER_MINUTE, duration: 60 });
  const recognise = recogniser(log);
  return async (ctx, next) => {
    if (ctx.method !== "GET") throw new ApiError(405, "method_not_allowed", { headers: { Allow: "GET" } });
    const auditor = await recognise(ctx);
    await limiter.consume(auditor.id).catch(tooMany);
    ctx.state.auditor = auditor;
    ctx.state.isVisible = visibleTo(auditor.clinicIds);
    await next();
  };
}

/**
 * Authenticates requests, and keeps a flood of invalid credentials from the event log. Throws as {@link
 * authenticate}.
 */
function recogniser(log: EventLog): (ctx: Koa.ParameterizedContext<AuditorState>) => Promise<Auditor> {
  const refused = new RateLimiterMemory({ points: MAX_REFUSED_PER_MINUTE, duration: 60 });
  const good = new Set<string>();
  return async (ctx) => {
    const header = ctx.get("Authorization");
    const credential = createHash("sha256").update(header).digest("base64");
    const address = callerAddress(ctx.ip);
    const flood = good.has(credential) ? null : await refused.get(address);
    if (flood && flood.consumedPoints >= MAX_REFUSED_PER_MINUTE) tooMany(flood);
    try {
      const auditor = await authenticate(log, header, ctx.state.now);
      good.add(credential);
      for (const oldest of good) {
        if (good.size <= MAX_KNOWN_CREDENTIALS) break;
        good.delete(oldest);
      }
      return auditor;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      good.delete(credential);
      await refused.consume(address).catch(tooMany);
      throw error;
    }
  };
}

/** @throws {ApiError} 429 for a count; other errors are rethrown */
function tooMany(counted: unknown): never {
  if (!(counted instanceof RateLimiterRes)) throw counted;
  const after = String(Math.max(1, Math.ceil(counted.msBeforeNext / 1000)));
  throw new ApiError(429, "rate_limit_exceeded", { headers: { "Retry-After": after } });
}
