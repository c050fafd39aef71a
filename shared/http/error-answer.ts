import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";

/**
 * Answers a request that no application sees, in the error body and with the headers of all other errors.
 *
 * @param code stable, in snake_case
 * @param headers beside the usual ones
 */
export function answerError(
  response: ServerResponse,
  status: number,
  code: string,
  headers: Record<string, string> = {},
): void {
  const correlationId = randomUUID();
  const body = JSON.stringify({ ok: false, error: code, correlationId });
  response.writeHead(status, {
    "Content-Type": "application/json; charset=utf-8",
    "Content-Length": Buffer.byteLength(body),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Correlation-ID": correlationId,
    ...headers,
  });
  response.end(body);
}
