import { randomUUID } from "node:crypto";
import Koa from "koa";
import type { Registry } from "prom-client";
import { LogUnavailableError, WrongExpectedRevisionError } from "../eventstore/log.ts";
import { registerReadinessMetric, registerRequestMetrics, serveMetrics } from "../metrics/http-metrics.ts";
import { createRegistry } from "../metrics/registry.ts";
import { isPostgresUnavailable } from "../runtime/failures.ts";
import type { Logger } from "../runtime/logger.ts";
import type { DeprecatedPath } from "../runtime/setting-schemas.ts";
import { checkTraceparent, isTracing, startTrace } from "../tracing/span.ts";
import { ApiError, createUnavailableError, toDocUrl } from "./api-error.ts";
import { type Readiness, serveHealth, shareRunningCheck } from "./health.ts";
import { findForwardedAddress, parseQuery } from "./request.ts";
import { requireRoute } from "./router.ts";

/** Matches health checks and metrics. These requests are frequent, so they are logged at level debug and not traced. */
const MONITORING_PATH = /^\/(health\/|metrics$)/;

export interface RequestState {
  correlationId: string;
  traceparent?: string | undefined;
  now: number;
  /** Aborts if the request exceeds its time limit; see `limitResponseTime`. */
  signal?: AbortSignal;
  log: RequestLog;
  /** Milliseconds spent waiting for an event, as the caller asked. Not part of the request's duration. */
  waitedMs?: number;
}

export interface AppOptions {
  logger: Logger;
  /** Path prefixes of retired operations, which return 410. */
  retiredPaths: readonly string[];
  deprecatedPaths?: readonly DeprecatedPath[] | undefined;
  isProxyTrusted: boolean;
  /** If true, error bodies contain `docUrl`, a path in the API reference. */
  hasReference?: boolean;
  checkReadiness: Readiness;
  /** Registry of the metrics that the application serves. By default, a new registry. */
  registry?: Registry;
  clock?: () => number;
}

/**
 * Creates the Koa application of a service, to which the service adds its routes. The application provides correlation
 * ids, one log line per request, error responses, headers that prevent caching and content sniffing, health checks and
 * metrics. If no route matches a request, it returns 404, or 405 with `Allow` if the path has other methods.
 */
export function createApp(options: AppOptions): Koa<RequestState> {
  const { clock = Date.now, registry = createRegistry() } = options;
  const recordRequest = registerRequestMetrics(registry);
  const checkReadiness = shareRunningCheck(options.checkReadiness);
  registerReadinessMetric(registry, checkReadiness);
  const app = new Koa<RequestState>();
  // A middleware below logs errors and sends error responses. Only errors of broken sockets reach Koa's error handler.
  app.silent = true;
  // Koa's own parsers need up to seconds of CPU time for hostile texts. All routers read the host, but no route uses it.
  Object.defineProperties(app.request, {
    host: { value: "" },
    query: {
      get(this: Koa.Request) {
        const value = parseQuery(this);
        Object.defineProperty(this, "query", { value });
        return value;
      },
    },
  });
  app.on("error", (error) => options.logger.debug({ error }, "connection broke while the response was sent"));
  if (isTracing()) app.use(traceRequests());
  app.use(async (ctx, next) => {
    ctx.state.correlationId = randomUUID();
    ctx.state.now = clock();
    ctx.state.log = new RequestLog(options.logger, { correlationId: ctx.state.correlationId });
    // Koa's own method for headers takes several times as long.
    ctx.res.setHeader("X-Correlation-ID", ctx.state.correlationId);
    ctx.res.setHeader("Cache-Control", "no-store");
    ctx.res.setHeader("X-Content-Type-Options", "nosniff");
    if (options.isProxyTrusted) ctx.request.ip = findForwardedAddress(ctx.req.headers) ?? ctx.ip;
    const startedAt = performance.now();
    await renderErrors(ctx, next, options.hasReference);
    const { waitedMs } = ctx.state;
    const durationMs = performance.now() - startedAt - (waitedMs ?? 0);
    if (waitedMs !== undefined) ctx.state.log.addFields({ waited: Math.round(waitedMs) });
    // The log line contains the route pattern instead of the URL, because URLs may contain data that must not be logged.
    const { _matchedRoute: route = "none", _matchedRouteName: operation } = ctx as MatchedRoute;
    const { method, status } = ctx;
    const isMonitoring = MONITORING_PATH.test(ctx.req.url ?? "");
    const level = isMonitoring ? "debug" : "info";
    ctx.state.log.write(level, { method, route, status, duration: Math.round(durationMs) }, "request");
    if (!isMonitoring) recordRequest(operation, status, durationMs / 1_000);
  });
  app.use(normalizeTarget());
  app.use(serveHealth(checkReadiness));
  app.use(serveMetrics(registry));
  app.use(async (ctx, next) => {
    if (options.retiredPaths.some((prefix) => ctx.path.startsWith(prefix))) {
      throw new ApiError(410, "operation_retired");
    }
    announceSunset(ctx, options.deprecatedPaths ?? []);
    await next();
    requireRoute(ctx);
  });
  return app;
}

/** Sets the headers `Deprecation` (RFC 9745) and `Sunset` (RFC 8594) on a response of a deprecated operation. */
function announceSunset(ctx: Koa.Context, deprecatedPaths: readonly DeprecatedPath[]): void {
  const deprecation = deprecatedPaths.find(({ prefix }) => ctx.path.startsWith(prefix));
  if (!deprecation) return;
  ctx.res.setHeader("Deprecation", `@${deprecation.deprecatedAt}`);
  ctx.res.setHeader("Sunset", new Date(deprecation.sunsetAt * 1_000).toUTCString());
}

interface MatchedRoute {
  _matchedRoute?: string;
  /** Name of the operation, for metrics. Absent if the method is not supported. */
  _matchedRouteName?: string;
}

async function renderErrors(
  ctx: Koa.ParameterizedContext<RequestState>,
  next: Koa.Next,
  hasReference = false,
): Promise<void> {
  try {
    await next();
  } catch (error) {
    const apiError = toApiError(error);
    if (apiError.status >= 500) ctx.state.log.write("error", { error }, "request failed");
    for (const [name, value] of Object.entries(apiError.headers)) ctx.res.setHeader(name, value);
    ctx.status = apiError.status;
    ctx.res.setHeader("Content-Type", "application/json; charset=utf-8");
    ctx.body = {
      ok: false,
      error: apiError.code,
      correlationId: ctx.state.correlationId,
      ...(hasReference && { docUrl: toDocUrl(apiError.code) }),
      ...(apiError.details && { details: apiError.details }),
    };
  }
}

/** Converts an error to an HTTP error. An unexpected error becomes a 500 error without details. */
function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof LogUnavailableError) return createUnavailableError("event_log_unavailable", error);
  // Other writers changed the stream during every attempt. No event was appended, and a later retry can succeed.
  if (error instanceof WrongExpectedRevisionError) return createUnavailableError("concurrent_changes", error);
  if (isPostgresUnavailable(error)) return createUnavailableError("data_source_unavailable", error);
  return new ApiError(500, "internal_error", { cause: error });
}

/**
 * Starts a trace for each request. The trace does not continue the trace of the caller, because anyone can send any
 * `traceparent`: a caller could otherwise force recording, or add spans to the trace of someone else. The first span
 * links to the caller's span.
 */
function traceRequests(): Koa.Middleware<RequestState> {
  return async (ctx, next) => {
    const isMonitoring = MONITORING_PATH.test(ctx.req.url ?? "");
    const span = isMonitoring ? undefined : startTrace(ctx.method, "server", checkTraceparent(ctx.headers.traceparent));
    if (!span) return next();
    ctx.state.traceparent = span.traceparent;
    await next();
    const route = (ctx as MatchedRoute)._matchedRoute;
    if (route !== undefined) {
      span.setName(`${ctx.method} ${route}`);
      span.setAttributes({ "http.route": route });
    }
    span.setAttributes({
      "http.request.method": ctx.method,
      "http.response.status_code": ctx.status,
      "correlation.id": ctx.state.correlationId,
    });
    span.end(ctx.status >= 500 ? String(ctx.status) : undefined);
  };
}

/**
 * Replaces a request target in absolute form with its path and query (RFC 9112, section 3.2.2). Refuses any other
 * target that is not a path, such as `*`, with 400 `malformed_request`. Encodes the `+` of UTC offsets.
 */
function normalizeTarget(): Koa.Middleware {
  return (ctx, next) => {
    const { url = "" } = ctx.req;
    ctx.req.url = (url.startsWith("/") ? url : extractPath(url)).replace(OFFSET_SIGN_PATTERN, "%2B");
    return next();
  };
}

/**
 * Matches the `+` before the UTC offset of a date-time, which the query parser would decode to a space. The lookbehind
 * must follow the `+`. If it came first, it would run at each digit of a long number, in quadratic time.
 */
const OFFSET_SIGN_PATTERN = /\+(?<=T\d\d(?::|%3A)\d\d(?::|%3A)\d\d(?:\.\d+)?\+)(?=\d\d(?::|%3A)\d\d)/gi;

/**
 * Extracts path and query exactly as the client sent them. The path is not taken from `URL`, which would resolve dot
 * segments and thereby accept several spellings of a path.
 */
function extractPath(text: string): string {
  const [, path] = /^https?:\/\/[^/?#]+([^#]*)/i.exec(text) ?? [];
  if (path === undefined || !URL.canParse(text)) throw new ApiError(400, "malformed_request");
  return path.startsWith("/") ? path : `/${path}`;
}

type Fields = Record<string, unknown>;

/**
 * Writes the log lines of one request, which all contain the request's fields. A child logger of pino would format the
 * fields again each time fields are added.
 */
class RequestLog {
  readonly #logger: Logger;
  readonly #fields: Fields;

  constructor(logger: Logger, fields: Fields) {
    this.#logger = logger;
    this.#fields = fields;
  }

  addFields(fields: Fields): void {
    Object.assign(this.#fields, fields);
  }

  write(level: "debug" | "info" | "warn" | "error", fields: Fields, message: string): void {
    // Two spreads in one literal take ten times as long.
    this.#logger[level](Object.assign({}, this.#fields, fields), message);
  }
}
