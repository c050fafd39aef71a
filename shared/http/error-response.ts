import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { NO_SNIFFING_HEADER } from "./no-sniffing.ts";

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
  const body = JSON.stringify({ ok: false, error: code, correlationId });
  const headers = {
    "Content-Type": "application/json; charset=utf-8",
    "Content-Length": Buffer.byteLength(body),
    "Cache-Control": "no-store",
    "X-Correlation-ID": correlationId,
    [NO_SNIFFING_HEADER[0]]: NO_SNIFFING_HEADER[1],
  };
  return { headers, body };
}

/**
 * Sends an error response without Koa, with the standard error headers and body.
 *
 * @param code stable error code, in snake_case
 * @param extraHeaders additional headers
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
