import {
  type IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  ServerResponse,
} from "node:http";

/** Tells browsers to take every answer for the type that it declares. */
export const NO_SNIFFING = ["X-Content-Type-Options", "nosniff"] as const;

type Headers = OutgoingHttpHeaders | OutgoingHttpHeader[];

/**
 * A response that forbids sniffing, whoever sets its other headers. Every answer of an HTTP server passes `writeHead`,
 * so no service can leave the header out.
 */
export class NoSniffingResponse<Request extends IncomingMessage> extends ServerResponse<Request> {
  override writeHead(status: number, reasonOrHeaders?: string | Headers, more?: Headers): this {
    const [reason, headers] =
      typeof reasonOrHeaders === "string" ? [reasonOrHeaders, more] : [this.statusMessage, reasonOrHeaders];
    // Raw headers are passed on as they are: a header set before would make Node lose repeated ones.
    if (Array.isArray(headers)) return super.writeHead(status, reason, withNoSniffing(headers));
    this.setHeader(...NO_SNIFFING);
    return super.writeHead(status, reason, headers);
  }
}

/** @param raw name, value, name, value … */
function withNoSniffing(raw: OutgoingHttpHeader[]): OutgoingHttpHeader[] {
  const names = raw.filter((_, index) => index % 2 === 0);
  const has = names.some((name) => String(name).toLowerCase() === NO_SNIFFING[0].toLowerCase());
  return has ? raw : [...raw, ...NO_SNIFFING];
}
