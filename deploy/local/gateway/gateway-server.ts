import http from "node:http";
import { pipeline } from "node:stream";
import { type ClientTimeouts, type HttpServer, listen } from "../../../shared/http/listen.ts";
import { sendError } from "../../../shared/http/node-response.ts";
import { selectForwardedHeaders } from "./gateway-headers.ts";
import { type BodyLimits, RequestBodies } from "./request-bodies.ts";

/**
 * The gateway gives all services one origin, like an ingress in production. It uses node:http directly, because proxy
 * libraries change the case of headers and drop repeated headers.
 *
 * The gateway reads a body completely before it forwards the request, so that a slow client does not occupy a
 * connection to a service. If a service closes an idle connection just when the gateway reuses the connection, the
 * gateway retries the request. Only GET and HEAD are safe to retry, so all other requests use new connections.
 */

export interface GatewayOptions {
  host: string;
  port: number;
  /** Origin of each service. */
  upstreamUrls: Record<Upstream, string>;
  /** Receives a line for each request that could not be forwarded. */
  log: (line: string) => void;
  /** Time limit in milliseconds for open requests during a shutdown. */
  drainTimeoutMs?: number;
  /** Time limits for slow clients; by default, the time limits of the services. */
  clientTimeouts?: ClientTimeouts;
  /** Limits on request bodies; by default, the limits of the services. */
  bodyLimits?: BodyLimits;
}

/** Time in milliseconds after which a service that sends no data is considered unavailable. */
const UPSTREAM_TIMEOUT_MS = 60_000;

/** Limit on the reusable connections to a service, and on the single-use connections. Further requests wait. */
const MAX_CONNECTIONS = 512;

/** Default limits on request bodies. The services have the same limit for a single body. */
const DEFAULT_BODY_LIMITS: BodyLimits = { maxBytes: 65_536, maxTotalBytes: 64 * 1024 * 1024 };

/**
 * Starts the gateway. It handles /health/live and /health/ready itself and forwards all other requests.
 *
 * @throws {StartError} if the gateway cannot listen on the port
 */
export async function startGateway(options: GatewayOptions): Promise<HttpServer> {
  const { host, port, drainTimeoutMs, clientTimeouts } = options;
  const bodies = new RequestBodies(options.bodyLimits ?? DEFAULT_BODY_LIMITS);
  const keepAliveAgent = new http.Agent({ keepAlive: true, maxSockets: MAX_CONNECTIONS });
  const singleUseAgent = new http.Agent({ keepAlive: false, maxSockets: MAX_CONNECTIONS });
  const handleRequest: http.RequestListener = (request, response) => {
    const { method = "GET", url = "" } = request;
    if (url === "/health/live" || url === "/health/ready") return sendHealth(response);
    const upstream = findUpstream(method, url);
    if (!upstream) return sendError(response, 400, "malformed_request");
    const origin = new URL(options.upstreamUrls[upstream]);
    const log = (line: string) => options.log(`${upstream}: ${line}`);
    const target = { origin, log, agent: singleUseAgent, retryAgent: singleUseAgent };
    if (hasBody(request)) return void forwardWithBody(request, response, target, bodies);
    const isSafe = method === "GET" || method === "HEAD";
    forward(request, response, isSafe ? { ...target, agent: keepAliveAgent } : target);
  };
  const server = await listen(handleRequest, host, port, drainTimeoutMs, clientTimeouts);
  return {
    ...server,
    async close() {
      await server.close();
      keepAliveAgent.destroy();
      singleUseAgent.destroy();
    },
  };
}

interface Target {
  origin: URL;
  agent: http.Agent;
  /** Agent for a retry. It opens a new connection, because the service may have closed other idle connections, too. */
  retryAgent: http.Agent;
  log: (line: string) => void;
}

function hasBody({ headers }: http.IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"]) > 0;
}

async function forwardWithBody(
  request: http.IncomingMessage,
  response: http.ServerResponse,
  target: Target,
  bodies: RequestBodies,
): Promise<void> {
  const body = await bodies.read(request);
  if (Buffer.isBuffer(body)) {
    const releaseBody = () => bodies.release(body);
    if (response.closed) return releaseBody(); // the client has already disconnected
    response.once("close", releaseBody);
    return forward(request, response, target, body);
  }
  // Many clients read the response only after they have sent the whole body, so the rest of a refused body is
  // discarded.
  request.resume();
  if (body === "too_large") sendError(response, 413, "body_too_large");
  if (body === "out_of_memory") sendError(response, 503, "too_many_bodies", { "Retry-After": "1" });
}

function forward(request: http.IncomingMessage, response: http.ServerResponse, target: Target, body?: Buffer): void {
  const upstreamRequest = http.request({
    host: target.origin.hostname,
    port: target.origin.port,
    method: request.method,
    path: request.url,
    headers: buildUpstreamHeaders(request, body),
    agent: target.agent,
    timeout: UPSTREAM_TIMEOUT_MS,
  });
  upstreamRequest.on("timeout", () => {
    upstreamRequest.destroy(Object.assign(new Error("timeout"), { code: "ETIMEDOUT" }));
  });
  upstreamRequest.on("response", (upstreamResponse) => {
    const { statusCode = 502, statusMessage, rawHeaders } = upstreamResponse;
    response.writeHead(statusCode, statusMessage, selectForwardedHeaders(rawHeaders));
    pipeline(upstreamResponse, response, () => undefined); // if one side is interrupted, closes the other
  });
  upstreamRequest.on("error", (error: NodeJS.ErrnoException) => {
    if (response.headersSent || response.destroyed) return; // the pipeline handles an interrupted response
    // The service closed an idle connection just when the gateway reused the connection. Only GET and HEAD reuse
    // connections.
    if (upstreamRequest.reusedSocket && error.code === "ECONNRESET")
      return forward(request, response, { ...target, agent: target.retryAgent });
    target.log(`${request.method} failed: ${error.code ?? error.message}`);
    const isConnectionRefused = error.code === "ECONNREFUSED";
    sendError(response, isConnectionRefused ? 503 : 502, "upstream_unavailable", { "Retry-After": "1" });
  });
  response.on("close", () => {
    if (!response.writableFinished) upstreamRequest.destroy();
  });
  upstreamRequest.end(body);
}

/** Returns the headers for the service. Adds Content-Length if the client sent the body in chunks. */
function buildUpstreamHeaders(request: http.IncomingMessage, body: Buffer | undefined): string[] {
  const headers = selectForwardedHeaders(request.rawHeaders, ["x-forwarded-for"]);
  headers.push("X-Forwarded-For", request.socket.remoteAddress ?? "unknown");
  if (body && request.headers["content-length"] === undefined) {
    headers.push("Content-Length", String(body.length));
  }
  return headers;
}

function sendHealth(response: http.ServerResponse): void {
  response
    .writeHead(200, { "Content-Type": "application/json", "X-Content-Type-Options": "nosniff" })
    .end('{"ok":true}');
}

export type Upstream = "command" | "queryApi" | "audit";

/**
 * Returns the service that handles a request. Portal paths belong to the query API, and audit paths belong to the audit
 * service. These services receive all methods, so that they can refuse unsupported ones. For other paths, the method
 * determines the service. Paths are not decoded or normalized, so a path such as `//audit` does not belong to the audit
 * service.
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
  if (path.startsWith("/api/v1/")) return "queryApi";
  if (path === "/audit" || path.startsWith("/audit/")) return "audit";
  return method === "GET" || method === "HEAD" ? "queryApi" : "command";
}
