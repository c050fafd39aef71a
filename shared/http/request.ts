import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";
import type Koa from "koa";
import { ApiError } from "./api-error.ts";

/**
 * Lists the values of a request header, in order. Faster than `headersDistinct`, which converts all headers.
 *
 * @param name name in lower case
 */
export function listHeaderValues({ rawHeaders }: IncomingMessage, name: string): string[] {
  const values: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const headerName = rawHeaders[index] as string;
    const isMatch = headerName.length === name.length && headerName.toLowerCase() === name;
    if (isMatch) values.push(rawHeaders[index + 1] as string);
  }
  return values;
}

/**
 * Returns the last address in `X-Forwarded-For`, which the trusted proxy has appended. The caller can forge all earlier
 * addresses. Empty elements are ignored (RFC 9110, section 5.6.1).
 */
export function findForwardedAddress({ "x-forwarded-for": list = "" }: IncomingHttpHeaders): string | undefined {
  return String(list)
    .split(",")
    .findLast((address) => address.trim() !== "")
    ?.trim();
}

/** Matches an address that a proxy wrote in brackets or with a port. */
const DECORATED_ADDRESS = /^(?:\[([^\]]*)\]|([\d.]+))(?::\d+)?$/;

/**
 * Returns the address by which rate limits identify a caller. For IPv6, this is the /64 network, because one host
 * usually owns a whole /64 network. Returns `unknown` for invalid text.
 *
 * @param text address as in `X-Forwarded-For`, to which some proxies add a port
 */
export function toCallerAddress(text: string): string {
  const [, bracketedText = text, ip = bracketedText] = DECORATED_ADDRESS.exec(text) ?? [];
  if (isIPv4(ip)) return ip;
  if (!ipaddr.isValid(ip)) return "unknown";
  const address = ipaddr.process(ip);
  if (!(address instanceof ipaddr.IPv6)) return address.toString();
  const networkParts = address.parts.slice(0, 4).map((part) => part.toString(16));
  return `${networkParts.join(":")}::/64`;
}

/** Maximum number of parameters in a query. No operation has half as many parameters. */
const MAX_QUERY_MEMBERS = 100;

/** Beginning of the paths of the portal API, whose contract has no error for a query with too many parameters. */
const PORTAL_PREFIX = "/api/v1/";

/**
 * Parses the query of a request, as form-urlencoded (WHATWG URL standard). The value of a repeated name is an array.
 *
 * @returns members by name. For the portal API, only the first 100 members
 * @throws {ApiError} 400 `validation_failed` if the query of another API has more than 100 members
 */
export function parseQuery({ path, querystring }: Pick<Koa.Request, "path" | "querystring">): Koa.Request["query"] {
  const members = [...new URLSearchParams(querystring)];
  if (members.length > MAX_QUERY_MEMBERS && !path.startsWith(PORTAL_PREFIX)) {
    const details = [{ path: "query", message: `must have at most ${MAX_QUERY_MEMBERS} members` }];
    throw new ApiError(400, "validation_failed", { details });
  }
  const query = new Map<string, string | string[]>();
  for (const [name, value] of members.slice(0, MAX_QUERY_MEMBERS)) {
    const earlier = query.get(name);
    query.set(name, earlier === undefined ? value : [earlier, value].flat());
  }
  return Object.fromEntries(query);
}
