import http from "node:http";
import { pipeline } from "node:stream";
import { sendError } from "../../../shared/http/api-error.ts";
import { type HttpServer, listen } from "../../../shared/http/listen.ts";

/**
 * The gateway gives all services one origin, like an ingress in production. It uses node:http directly, because proxy
 * libraries change the case of headers and drop repeated headers.
 *
 * Each request uses a new connection to a service, so the gateway needs no retry for a connection that a service has
 * just closed.
 */

export type Upstream = "command" | "queryApi" | "audit";

export interface GatewayOptions {
  host: string;
  port: number;
  upstreamUrls: Record<Upstream, string>;
  /** Called for each request that could not be forwarded. */
  log: (line: string) => void;
  /** Limits the wait for open requests during a shutdown. */
  drainTimeoutMs?: number;
}

/** A service that sends no data for this time is considered unavailable. */
const UPSTREAM_TIMEOUT_MS = 60_000;

/** Longer bodies are cut to this size: one byte more than the services accept, so that a service refuses the body. */
const MAX_FORWARDED_BYTES = 65_537;

/**
 * Hop-by-hop headers (RFC 9110, section 7.6.1), headers that the gateway handles itself, and the client's address,
 * which the gateway replaces.
 */
const DROPPED_HEADERS = [
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "expect",
  "x-forwarded-for",
];

/**
 * Starts the gateway. It handles /health/live and /health/ready itself and forwards all other requests.
 *
 * @throws {StartError} if the gateway cannot listen on the port
 */
export function startGateway({ host, port, upstreamUrls, log, drainTimeoutMs }: GatewayOptions): Promise<HttpServer> {
  const handleRequest: http.RequestListener = (request, response) => {
    const { method = "GET", url = "" } = request;
    if (url === "/health/live" || url === "/health/ready") return sendHealth(method, response);
    const upstream = findUpstream(method, url);
    if (!upstream) return sendError(response, 400, "malformed_request");
    forward(request, response, new URL(upstreamUrls[upstream]), (line) => log(`${upstream}: ${line}`)).catch(
      () => undefined, // the client has disconnected
    );
  };
  return listen(handleRequest, host, port, drainTimeoutMs);
}

/**
 * Forwards a request. Reads the body completely first, so that a slow client does not occupy a connection to a service.
 */
async function forward(
  request: http.IncomingMessage,
  response: http.ServerResponse,
  origin: URL,
  log: (line: string) => void,
): Promise<void> {
  const body = await readBody(request);
  const { method, url, rawHeaders, socket } = request;
  const headers = selectHeaders(rawHeaders, "content-length");
  headers.push("X-Forwarded-For", socket.remoteAddress ?? "unknown");
  // Without this header, Node.js would send the body of a POST in chunks, even if it is empty.
  headers.push("Content-Length", String(body.length));
  const { hostname, port } = origin;
  const upstreamRequest = http.request({
    hostname,
    port,
    method,
    path: url,
    headers,
    agent: false,
    timeout: UPSTREAM_TIMEOUT_MS,
  });
  upstreamRequest.on("timeout", () => {
    upstreamRequest.destroy(Object.assign(new Error("timeout"), { code: "ETIMEDOUT" }));
  });
  upstreamRequest.on("response", (upstreamResponse) => {
    const { statusCode = 502 } = upstreamResponse;
    // writeHead would throw for a status below 100, and for some characters in a reason phrase.
    if (statusCode < 200) return void upstreamRequest.destroy(new Error(`invalid status ${statusCode}`));
    response.writeHead(statusCode, selectHeaders(upstreamResponse.rawHeaders));
    pipeline(upstreamResponse, response, () => undefined); // if one side is interrupted, closes the other
  });
  upstreamRequest.on("error", (error: NodeJS.ErrnoException) => {
    if (response.headersSent || response.destroyed) return; // the pipeline handles an interrupted response
    log(`${method} failed: ${error.code ?? error.message}`);
    const isConnectionRefused = error.code === "ECONNREFUSED";
    sendError(response, isConnectionRefused ? 503 : 502, "upstream_unavailable", { "Retry-After": "1" });
  });
  response.on("close", () => {
    if (!response.writableFinished) upstreamRequest.destroy();
  });
  upstreamRequest.end(body);
}

/**
 * Returns at most the first MAX_FORWARDED_BYTES of the body. Reads the rest too, because many clients read the response
 * only after they have sent the whole body.
 */
async function readBody(request: http.IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request) {
    if (length < MAX_FORWARDED_BYTES) chunks.push(chunk);
    length += chunk.length;
  }
  return Buffer.concat(chunks).subarray(0, MAX_FORWARDED_BYTES);
}

/**
 * Returns the headers to forward. Preserves case, order and repetitions.
 *
 * @param rawHeaders alternating names and values
 */
function selectHeaders(rawHeaders: readonly string[], ...otherDroppedHeaders: string[]): string[] {
  const droppedHeaders = [...DROPPED_HEADERS, ...otherDroppedHeaders];
  const headers: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const [name = "", value = ""] = rawHeaders.slice(index, index + 2);
    if (!droppedHeaders.includes(name.toLowerCase())) headers.push(name, value);
  }
  return headers;
}

function sendHealth(method: string, response: http.ServerResponse): void {
  const headers = { "Content-Type": "application/json", "X-Content-Type-Options": "nosniff" };
  if (isRead(method)) response.writeHead(200, headers).end('{"ok":true}');
  else sendError(response, 405, "method_not_allowed", { Allow: "GET, HEAD" });
}

/**
 * Returns the service that handles a request. For the partner API, the method decides: reads go to the query API, and
 * writes to the command service. For all other requests, only the path decides.
 *
 * Paths are not decoded or normalized, so a path such as `//audit` does not belong to the audit service.
 *
 * @param target request target that the client sent
 * @returns undefined if the target is not a path, for example if it is an absolute URL or `*`
 */
export function findUpstream(method: string, target: string): Upstream | undefined {
  if (!target.startsWith("/")) return undefined;
  const path = target.split("?", 1)[0] ?? "";
  if (
    ["/.well-known/jwks.json", "/.well-known/webhook-keys.json"].includes(path) ||
    path.startsWith("/.well-known/oauth-authorization-server/")
  )
    return "command";
  if (path === "/audit" || path.startsWith("/audit/")) return "audit";
  return /^\/(sandbox|production)\/v1\//.test(path) && !isRead(method) ? "command" : "queryApi";
}

const isRead = (method: string) => method === "GET" || method === "HEAD";
