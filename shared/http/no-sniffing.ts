import {
  type IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  ServerResponse,
} from "node:http";

/** Header that forbids browsers to guess the content type. */
export const NO_SNIFFING = ["X-Content-Type-Options", "nosniff"] as const;

type Headers = OutgoingHttpHeaders | OutgoingHttpHeader[];

/**
 * A response that always has this header. All answers of an HTTP server pass `writeHead`, so no service can omit it.
 */
export class NoSniffingResponse<Request extends IncomingMessage> extends ServerResponse<Request> {
  override writeHead(status: number, reasonOrHeaders?: string | Headers, more?: Headers): this {
    const [reason, headers] =
      typeof reasonOrHeaders === "string" ? [reasonOrHeaders, more] : [this.statusMessage, reasonOrHeaders];
    // Raw headers are not merged with headers set earlier, because Node would lose repeated ones.
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
