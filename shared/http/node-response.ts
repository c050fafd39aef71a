import { randomUUID } from "node:crypto";
import { type IncomingMessage, type OutgoingHttpHeader, type OutgoingHttpHeaders, ServerResponse } from "node:http";

/** Header that tells browsers not to guess the content type. */
const NO_SNIFFING_HEADER = ["X-Content-Type-Options", "nosniff"] as const;

type Headers = OutgoingHttpHeaders | OutgoingHttpHeader[];

/**
 * A response that always has the header `X-Content-Type-Options`. Node sends every response with `writeHead`, so no
 * service can omit the header.
 */
export class NoSniffingResponse<Request extends IncomingMessage> extends ServerResponse<Request> {
  override writeHead(status: number, reasonOrHeaders?: string | Headers, moreHeaders?: Headers): this {
    const [reason, headers] =
      typeof reasonOrHeaders === "string" ? [reasonOrHeaders, moreHeaders] : [this.statusMessage, reasonOrHeaders];
    // `setHeader` is avoided for raw headers, because Node would then merge them and drop repeated headers.
    if (Array.isArray(headers)) return super.writeHead(status, reason, addNoSniffing(headers));
    this.setHeader(...NO_SNIFFING_HEADER);
    return super.writeHead(status, reason, headers);
  }
}

/**
 * Adds `X-Content-Type-Options` to raw headers, unless they already contain it.
 *
 * @param rawHeaders alternating names and values
 */
function addNoSniffing(rawHeaders: OutgoingHttpHeader[]): OutgoingHttpHeader[] {
  const names = rawHeaders.filter((_, index) => index % 2 === 0);
  const hasHeader = names.some((name) => String(name).toLowerCase() === NO_SNIFFING_HEADER[0].toLowerCase());
  return hasHeader ? rawHeaders : [...rawHeaders, ...NO_SNIFFING_HEADER];
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
