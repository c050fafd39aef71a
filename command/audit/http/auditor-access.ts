import { createHash } from "node:crypto";
import type Koa from "koa";
import { RateLimiterMemory, RateLimiterRes } from "rate-limiter-flexible";
import type { Auditor } from "../../../shared/domain/audit/auditor.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import type { RequestState } from "../../../shared/http/app.ts";
import { toCallerAddress } from "../../../shared/http/request.ts";
import { authenticate } from "../access/authenticate.ts";
import { createVisibilityFilter, type IsVisible } from "../access/visibility.ts";

/** State of a request after the auditor has been authenticated. */
export interface AuditorState extends RequestState {
  auditor: Auditor;
  isVisible: IsVisible;
}

/** Maximum number of requests that one auditor may send per minute. */
const MAX_REQUESTS_PER_MINUTE = 240;

/**
 * Maximum number of invalid credentials that one address may send per minute. The limit protects the event log, which
 * is read for each invalid credential. The limit need not prevent guessing, because a credential has 256 random bits.
 */
const MAX_INVALID_CREDENTIALS_PER_MINUTE = 300;

/**
 * Maximum number of valid credentials to remember. A flood of invalid credentials from the same address does not block
 * a remembered credential.
 */
const MAX_REMEMBERED_CREDENTIALS = 1_000;

/**
 * Creates the middlewares that require a method, an auditor's credential, and a request rate below the limit. Both count
 * the same requests. Each process counts requests separately.
 */
export function requireAuditor(log: EventLog): Record<"authorize" | "authorizePost", Koa.Middleware<AuditorState>> {
  const limiter = new RateLimiterMemory({ points: MAX_REQUESTS_PER_MINUTE, duration: 60 });
  const authenticateRequest = createAuthenticator(log);
  const createMiddleware =
    (method: "GET" | "POST"): Koa.Middleware<AuditorState> =>
    async (ctx, next) => {
      if (ctx.method !== method) throw new ApiError(405, "method_not_allowed", { headers: { Allow: method } });
      const auditor = await authenticateRequest(ctx);
      await limiter.consume(auditor.id).catch(throwRateLimitError);
      ctx.state.auditor = auditor;
      ctx.state.isVisible = createVisibilityFilter(auditor.clinicIds);
      await next();
    };
  return { authorize: createMiddleware("GET"), authorizePost: createMiddleware("POST") };
}

/**
 * Creates a function that authenticates requests and throws the errors of {@link authenticate}. If an address has sent
 * too many invalid credentials, the function throws {@link ApiError} 429 without reading the event log.
 */
function createAuthenticator(log: EventLog): (ctx: Koa.ParameterizedContext<AuditorState>) => Promise<Auditor> {
  const invalidCredentialLimiter = new RateLimiterMemory({
    points: MAX_INVALID_CREDENTIALS_PER_MINUTE,
    duration: 60,
  });
  const rememberedHashes = new Set<string>();
  return async (ctx) => {
    const authorization = ctx.get("Authorization");
    const credentialHash = createHash("sha256").update(authorization).digest("base64");
    const callerAddress = toCallerAddress(ctx.ip);
    const usage = rememberedHashes.has(credentialHash) ? null : await invalidCredentialLimiter.get(callerAddress);
    if (usage && usage.consumedPoints >= MAX_INVALID_CREDENTIALS_PER_MINUTE) throwRateLimitError(usage);
    try {
      const auditor = await authenticate(log, authorization, ctx.state.now);
      rememberedHashes.add(credentialHash);
      for (const oldestHash of rememberedHashes) {
        if (rememberedHashes.size <= MAX_REMEMBERED_CREDENTIALS) break;
        rememberedHashes.delete(oldestHash);
      }
      return auditor;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      rememberedHashes.delete(credentialHash);
      await invalidCredentialLimiter.consume(callerAddress).catch(throwRateLimitError);
      throw error;
    }
  };
}

/** Throws {@link ApiError} 429 if a rate limit is exceeded. Rethrows any other cause. */
function throwRateLimitError(cause: unknown): never {
  if (!(cause instanceof RateLimiterRes)) throw cause;
  const retryAfterSeconds = String(Math.max(1, Math.ceil(cause.msBeforeNext / 1000)));
  throw new ApiError(429, "rate_limit_exceeded", { headers: { "Retry-After": retryAfterSeconds } });
}
