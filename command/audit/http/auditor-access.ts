import type Koa from "koa";
import { LRUCache } from "lru-cache";
import { type Auditor, auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import type { RequestState } from "../../../shared/http/app.ts";
import { toCallerAddress } from "../../../shared/http/request.ts";
import { ConcurrencyLimiter, createRateLimitError } from "../../../shared/rate-limit/middleware.ts";
import { type Window, Windows } from "../../../shared/rate-limit/windows.ts";
import { loadAggregate } from "../../handling/handle.ts";
import { AUDITOR_PREFIX } from "../../operations/auditor-operations.ts";
import { type Credential, readAuthorization, requireActive } from "../../operations/credentials.ts";

export interface AuditorState extends RequestState {
  auditor: Auditor;
  /** Repeats the check of the credential, for use during a long response. Throws the errors of {@link authenticate}. */
  authenticateAgain(): Promise<void>;
}

const MINUTE_MS = 60_000;

const MAX_REQUESTS_PER_MINUTE = 240;

/**
 * Maximum number of invalid credentials that one address may send per minute. The limit protects the event log, which
 * is read for each invalid credential. It is not needed against guessing, because a credential has 256 random bits.
 */
const MAX_INVALID_CREDENTIALS_PER_MINUTE = 300;

/** Maximum number of concurrent requests of an auditor in this process. */
const MAX_CONCURRENT_REQUESTS = 8;

const MAX_REMEMBERED_CREDENTIALS = 2_000;

/**
 * Creates the middleware that requires an auditor's credential. It limits the request rate and the number of concurrent
 * requests, separately in each process.
 *
 * It throws {@link ApiError} 429 without reading the event log if an address has sent too many invalid credentials, or
 * an auditor too many requests. It remembers valid credentials. Invalid credentials from the same address do not block
 * remembered ones.
 */
export function requireAuditor(log: EventLog): Koa.Middleware<AuditorState> {
  const windows = new Windows();
  const auditorIds = new LRUCache<string, string>({ max: MAX_REMEMBERED_CREDENTIALS });
  const limiter = new ConcurrencyLimiter("auditor-concurrency", MAX_CONCURRENT_REQUESTS);
  const authenticateRequest = async (ctx: Koa.ParameterizedContext<AuditorState>, address: string) => {
    const credential = readAuthorization(AUDITOR_PREFIX, ctx.get("Authorization"));
    const { ownerId, secretHash } = credential;
    if (auditorIds.get(secretHash) === ownerId) requireRest(windows, ownerId, MAX_REQUESTS_PER_MINUTE);
    else requireRest(windows, address, MAX_INVALID_CREDENTIALS_PER_MINUTE);
    ctx.state.authenticateAgain = async () => void (await authenticate(log, credential, Date.now()));
    ctx.state.auditor = await authenticate(log, credential, ctx.state.now).catch((error: unknown) => {
      if (error instanceof ApiError) auditorIds.delete(secretHash);
      throw error;
    });
    auditorIds.set(secretHash, ownerId);
  };
  return async (ctx, next) => {
    const address = toCallerAddress(ctx.ip);
    await authenticateRequest(ctx, address).catch((error: unknown) => {
      if (error instanceof ApiError && error.status === 401)
        countRequest(windows, address, MAX_INVALID_CREDENTIALS_PER_MINUTE);
      throw error;
    });
    const { id } = ctx.state.auditor;
    countRequest(windows, id, MAX_REQUESTS_PER_MINUTE);
    limiter.enter(ctx, id);
    // A response ends when the client has read it, or is disconnected.
    ctx.res.once("close", () => limiter.leave(id));
    await next();
  };
}

/**
 * Verifies a credential, and returns its auditor. Each call reads the event log, so a revocation takes effect with the
 * next request.
 *
 * @param now milliseconds since 1970
 * @throws {ApiError} 401 `invalid_token` if the credential is unknown, expired or revoked
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function authenticate(log: EventLog, credential: Credential, now: number): Promise<Auditor> {
  const { state } = await loadAggregate(log, auditorAggregate, credential.ownerId);
  return requireActive(credential, state, now);
}

/** @throws {ApiError} 429 if the requests of the current window have reached the limit */
function requireRest(windows: Windows, key: string, limit: number): void {
  const window = windows.find(key);
  if (window && window.used >= limit) throw toRateLimitError(window);
}

function countRequest(windows: Windows, key: string, limit: number): void {
  const window = windows.findOrStart(key, MINUTE_MS);
  window.used += 1;
  if (window.used > limit) throw toRateLimitError(window);
}

function toRateLimitError({ expiresAt }: Window): ApiError {
  return createRateLimitError(expiresAt - performance.now());
}
