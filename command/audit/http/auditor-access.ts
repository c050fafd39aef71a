import type Koa from "koa";
import { RateLimiterMemory, RateLimiterRes } from "rate-limiter-flexible";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import type { RequestState } from "../../../shared/http/app.ts";
import type { Auditor } from "../access/auditor.ts";
import { authenticate } from "../access/authenticate.ts";
import { type MaySee, maySeeOf } from "../access/may-see.ts";

/** What a request of an auditor carries. */
export interface AuditorState extends RequestState {
  auditor: Auditor;
  maySee: MaySee;
}

/** Requests a minute, for each auditor. */
const REQUESTS_PER_MINUTE = 240;

/** Lets in whoever holds an auditor's credential, to read, and not too often. Counted by this process alone. */
export function auditorAccess(log: EventLog): Koa.Middleware<AuditorState> {
  const limiter = new RateLimiterMemory({ points: REQUESTS_PER_MINUTE, duration: 60 });
  return async (ctx, next) => {
    if (ctx.method !== "GET") throw new ApiError(405, "method_not_allowed", { headers: { Allow: "GET" } });
    const auditor = await authenticate(log, ctx.get("Authorization"), ctx.state.now);
    await limiter.consume(auditor.id).catch((refusal: unknown) => {
      if (!(refusal instanceof RateLimiterRes)) throw refusal;
      const after = String(Math.max(1, Math.ceil(refusal.msBeforeNext / 1000)));
      throw new ApiError(429, "rate_limit_exceeded", { headers: { "Retry-After": after } });
    });
    ctx.state.auditor = auditor;
    ctx.state.maySee = maySeeOf(auditor.clinicIds);
    await next();
  };
}
