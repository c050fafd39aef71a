import { randomUUID } from "node:crypto";
import Koa from "koa";
import { LogUnavailable, WrongExpectedRevision } from "../eventstore/log.ts";
import { isPostgresUnavailable } from "../postgres/unavailable.ts";
import type { Logger } from "../runtime/logger.ts";
import { ApiError, unavailable } from "./api-error.ts";
import { health, type Readiness } from "./health.ts";
import { pathOfTarget } from "./request-target.ts";

/** What every request carries. Operations add what they know of the caller. */
export interface RequestState {
  correlationId: string;
  /** The time of the request, read once. Milliseconds since 1970. */
  now: number;
  log: Logger;
}

export interface AppOptions {
  logger: Logger;
  /** Path prefixes of operations that were taken out of service: 410. */
  retiredPaths: readonly string[];
  /** Whether X-Forwarded-For is written by a proxy of ours. */
  trustProxy: boolean;
  /** What must be in reach for the service to do its job. */
  readiness: Readiness;
  clock?: () => number;
}

/**
 * The Koa application that every service starts from: correlation id, one log line a request, one rendering of
 * errors, no caching, health. The service adds its routes; whatever they leave unanswered is 404.
 */
export function createApp(options: AppOptions): Koa<RequestState> {
  const clock = options.clock ?? Date.now;
  // Our proxy appends the address that it saw; what stands before that in X-Forwarded-For is the caller's own word.
  const app = new Koa<RequestState>({ proxy: options.trustProxy, maxIpsCount: 1 });
  // Errors are rendered and logged below; what reaches Koa's own handler is a socket that broke while answering.
  app.silent = true;
  app.on("error", (error) => options.logger.debug({ error }, "connection broke while answering"));
  app.use(async (ctx, next) => {
    ctx.state.correlationId = randomUUID();
    ctx.state.now = clock();
    ctx.state.log = options.logger.child({ correlationId: ctx.state.correlationId });
    ctx.set("X-Correlation-ID", ctx.state.correlationId);
    ctx.set("Cache-Control", "no-store");
    const started = performance.now();
    await answer(ctx, next);
    const duration = Math.round(performance.now() - started);
    // The route's pattern, not the URL: paths and queries may hold what logs must not.
    const route = (ctx as { _matchedRoute?: unknown })._matchedRoute ?? "none";
    // Whoever asks for health asks every few moments, and would drown what the log file is for.
    const level = ctx.req.url?.startsWith("/health/") ? "debug" : "info";
    ctx.state.log[level]({ method: ctx.method, route, status: ctx.status, duration }, "request");
  });
  app.use(pathOfTarget());
  app.use(health(options.readiness));
  app.use(async (ctx, next) => {
    if (options.retiredPaths.some((prefix) => ctx.path.startsWith(prefix))) {
      throw new ApiError(410, "operation_retired");
    }
    await next();
    if (ctx.status === 404 && ctx.body === undefined) throw new ApiError(404, "not_found");
  });
  return app;
}

async function answer(ctx: Koa.ParameterizedContext<RequestState>, next: Koa.Next): Promise<void> {
  try {
    await next();
  } catch (thrown) {
    const error = toApiError(thrown);
    if (error.status >= 500) ctx.state.log.error({ error: thrown }, "request failed");
    ctx.set(error.headers);
    ctx.status = error.status;
    ctx.body = {
      ok: false,
      error: error.code,
      correlationId: ctx.state.correlationId,
      ...(error.details && { details: error.details }),
    };
  }
}

/** Errors of the parts below become answers here and nowhere else; one that nobody foresaw becomes an opaque 500. */
function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof LogUnavailable) return unavailable("event_log_unavailable", error);
  // A race that was lost again and again: nothing was appended, and later there will be room.
  if (error instanceof WrongExpectedRevision) return unavailable("too_many_changes", error);
  if (isPostgresUnavailable(error)) return unavailable("data_source_unavailable", error);
  return new ApiError(500, "internal_error", { cause: error });
}
