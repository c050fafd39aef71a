import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { ErrorDetail } from "../domain/domain-error.ts";

/** Thrown to send an HTTP error response with a status of 400 or above. The code is stable and in snake_case. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly code: string;
  readonly details: ErrorDetail[] | undefined;
  readonly headers: Record<string, string>;

  constructor(
    status: number,
    code: string,
    options: { details?: ErrorDetail[]; headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    // Recording the stack takes longer than everything else that an error response needs, and the log omits stacks.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(`${status} ${code}`, { cause: options.cause });
    Error.stackTraceLimit = stackTraceLimit;
    this.status = status;
    this.code = code;
    this.details = options.details;
    this.headers = options.headers ?? {};
  }
}

/**
 * Creates a 503 error for a temporarily unavailable dependency.
 *
 * @param code error code, such as `data_source_unavailable`
 */
export function createUnavailableError(code: string, cause: unknown, retryAfterSeconds = 2): ApiError {
  return new ApiError(503, code, { headers: { "Retry-After": String(retryAfterSeconds) }, cause });
}

/** Returns the URL path of an error code in the API reference. */
export function toDocUrl(code: string): string {
  return `/docs#error-${code}`;
}

/**
 * Creates headers and body of an error response that is sent without Koa.
 *
 * @param code stable error code, in snake_case
 */
export function createErrorResponse(code: string): {
  headers: Record<string, string | number>;
  body: string;
} {
  const correlationId = randomUUID();
  const body = JSON.stringify({ ok: false, error: code, correlationId, docUrl: toDocUrl(code) });
  const headers = {
    "Content-Type": "application/json; charset=utf-8",
    "Content-Length": Buffer.byteLength(body),
    "Cache-Control": "no-store",
    "X-Correlation-ID": correlationId,
    "X-Content-Type-Options": "nosniff",
  };
  return { headers, body };
}

/**
 * Sends an error response without Koa, with the standard error headers and body.
 *
 * @param code stable error code, in snake_case
 */
export function sendError(
  response: ServerResponse,
  status: number,
  code: string,
  extraHeaders: Record<string, string> = {},
): void {
  const { headers, body } = createErrorResponse(code);
  response.writeHead(status, { ...headers, ...extraHeaders });
  response.end(body);
}
