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

/** What a request of an auditor carries. */
export interface AuditorState extends RequestState {
  auditor: Auditor;
  isVisible: IsVisible;
}

/** Requests a minute, for each auditor. */
const REQUESTS_PER_MINUTE = 240;

/**
 * Credentials from one address that are worth nothing, a minute. Each costs a read of the log, and guessing one is
 * hopeless: more come from a flood, which must reach the log no further.
 */
const MAX_REFUSED_PER_MINUTE = 300;

/** So many credentials are remembered as good: those who hold one are not held up by a flood from their address. */
const MAX_KNOWN_CREDENTIALS = 1_000;

/** Lets in whoever holds an auditor's credential, to read, and not too often. Counted by this process alone. */
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

/** Tells whose credential a request carries, and keeps a flood of others from the log. Throws as {@link authenticate}. */
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

/** @throws {ApiError} 429; what is no count is thrown on */
function tooMany(counted: unknown): never {
  if (!(counted instanceof RateLimiterRes)) throw counted;
  const after = String(Math.max(1, Math.ceil(counted.msBeforeNext / 1000)));
  throw new ApiError(429, "rate_limit_exceeded", { headers: { "Retry-After": after } });
}
