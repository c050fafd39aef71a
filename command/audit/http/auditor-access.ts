import { createHash } from "node:crypto";
import type Koa from "koa";
import { LRUCache } from "lru-cache";
import type { Auditor } from "../../../shared/domain/audit/auditor.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import type { RequestState } from "../../../shared/http/app.ts";
import { toCallerAddress } from "../../../shared/http/request.ts";
import { createRateLimitError } from "../../../shared/rate-limit/middleware.ts";
import { type Window, Windows } from "../../../shared/rate-limit/windows.ts";
import { authenticate } from "../access/authenticate.ts";
import { createVisibilityFilter, type IsVisible } from "../access/visibility.ts";

export interface AuditorState extends RequestState {
  auditor: Auditor;
  isVisible: IsVisible;
}

const MINUTE_MS = 60_000;

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
  const windows = new Windows();
  const authenticateRequest = createAuthenticator(log);
  const createMiddleware =
    (method: "GET" | "POST"): Koa.Middleware<AuditorState> =>
    async (ctx, next) => {
      if (ctx.method !== method) throw new ApiError(405, "method_not_allowed", { headers: { Allow: method } });
      const auditor = await authenticateRequest(ctx);
      countRequest(windows, auditor.id, MAX_REQUESTS_PER_MINUTE);
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
  const windows = new Windows();
  const rememberedHashes = new LRUCache<string, true>({ max: MAX_REMEMBERED_CREDENTIALS });
  return async (ctx) => {
    const authorization = ctx.get("Authorization");
    const credentialHash = createHash("sha256").update(authorization).digest("base64");
    const callerAddress = toCallerAddress(ctx.ip);
    const window = rememberedHashes.get(credentialHash) ? undefined : windows.find(callerAddress);
    if (window && window.used >= MAX_INVALID_CREDENTIALS_PER_MINUTE) throw toRateLimitError(window);
    try {
      const auditor = await authenticate(log, authorization, ctx.state.now);
      rememberedHashes.set(credentialHash, true);
      return auditor;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      rememberedHashes.delete(credentialHash);
      countRequest(windows, callerAddress, MAX_INVALID_CREDENTIALS_PER_MINUTE);
      throw error;
    }
  };
}

function countRequest(windows: Windows, key: string, limit: number): void {
  const window = windows.findOrStart(key, MINUTE_MS);
  window.used += 1;
  if (window.used > limit) throw toRateLimitError(window);
}

function toRateLimitError({ expiresAt }: Window): ApiError {
  return createRateLimitError(expiresAt - performance.now());
}
