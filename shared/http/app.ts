import { randomUUID } from "node:crypto";
import Koa from "koa";
import { LogUnavailableError, WrongExpectedRevisionError } from "../eventstore/log.ts";
import { isPostgresUnavailable } from "../postgres/unavailable.ts";
import type { Logger } from "../runtime/logger.ts";
import { ApiError, unavailable } from "./api-error.ts";
import { health, type Readiness } from "./health.ts";
import { pathOfTarget } from "./request-target.ts";

/** State of every request. Operations extend it. */
export interface RequestState {
  correlationId: string;
  /** Time of the request. Milliseconds since 1970. */
  now: number;
  log: Logger;
}

export interface AppOptions {
  logger: Logger;
  /** Path prefixes of retired operations, which answer 410. */
  retiredPaths: readonly string[];
  /** Whether X-Forwarded-For is set by a trusted proxy. */
  trustProxy: boolean;
  /** Checks the dependencies of the service. */
  readiness: Readiness;
  clock?: () => number;
}

/**
 * Creates the Koa application of a service: correlation id, one log line per request, error answers, no caching,
 * health checks. The service adds its routes. Unmatched requests are 404.
 */
export function createApp(options: AppOptions): Koa<RequestState> {
  const clock = options.clock ?? Date.now;
  // The trusted proxy appends the client address to X-Forwarded-For. Earlier addresses come from the caller and are ignored.
  const app = new Koa<RequestState>({ proxy: options.trustProxy, maxIpsCount: 1 });
  // Errors are answered and logged below. Only broken sockets reach Koa's own error handler.
  app.silent = true;
  app.on("error", (error) => options.logger.debug({ error }, "connection broke while the answer was sent"));
  app.use(async (ctx, next) => {
    ctx.state.correlationId = randomUUID();
    ctx.state.now = clock();
    ctx.state.log = options.logger.child({ correlationId: ctx.state.correlationId });
    ctx.set("X-Correlation-ID", ctx.state.correlationId);
    ctx.set("Cache-Control", "no-store");
    const started = performance.now();
    await answer(ctx, next);
    const duration = Math.round(performance.now() - started);
    // Logs the route pattern, not the URL: paths and queries may contain data that must not be logged.
    const route = (ctx as { _matchedRoute?: unknown })._matchedRoute ?? "none";
    // Health checks are frequent and would flood the log.
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

/** Converts errors to HTTP errors. An unexpected error becomes a 500 without details. */
function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof LogUnavailableError) return unavailable("event_log_unavailable", error);
  // Other writers kept changing the stream. Nothing was appended, and a later retry can succeed.
  if (error instanceof WrongExpectedRevisionError) return unavailable("too_many_changes", error);
  if (isPostgresUnavailable(error)) return unavailable("data_source_unavailable", error);
  return new ApiError(500, "internal_error", { cause: error });
}
