import http from "node:http";
import { pipeline } from "node:stream";
import { answerError } from "../../../shared/http/error-answer.ts";
import { type Listening, listen } from "../../../shared/http/listen.ts";
import { forwardedHeaders } from "./gateway-headers.ts";
import { type BodyLimits, RequestBodies } from "./request-bodies.ts";

/**
 * One origin in front of the services, as an ingress gives in production. On node:http alone: the request goes on with
 * its raw headers, so that case and repetitions survive, which the proxy libraries lose.
 *
 * A body is read completely before the request goes on, so that a client that dawdles holds no connection to a service.
 * A kept connection may be closed by the service just as it is taken. So only a request that changes nothing uses one,
 * and is then repeated; every other request gets a fresh connection.
 */

export interface GatewayOptions {
  host: string;
  port: number;
  /** Origin of each service. */
  upstreams: Record<Upstream, string>;
  /** Takes one line for each request that could not be passed on. */
  log: (line: string) => void;
  /** How long requests under way at a close may take to finish. Milliseconds. */
  drainTimeoutMs?: number;
  /** Limits on request bodies, by default those of the services. */
  bodies?: BodyLimits;
}

/** A service that says nothing for this long counts as down. Milliseconds. */
const UPSTREAM_TIMEOUT_MS = 60_000;

/** Most connections of each kind to one service; further requests wait. */
const MAX_SOCKETS = 512;

/** The services refuse a larger body, too. */
const BODIES: BodyLimits = { each: 65_536, all: 64 * 1024 * 1024 };

/**
 * Starts the gateway, with the limits of the services behind it. GET /health/live and /health/ready are its own.
 *
 * @throws {StartError} where it cannot listen
 */
export async function startGateway(options: GatewayOptions): Promise<Listening> {
  const bodies = new RequestBodies(options.bodies ?? BODIES);
  const kept = new http.Agent({ keepAlive: true, maxSockets: MAX_SOCKETS });
  const fresh = new http.Agent({ keepAlive: false, maxSockets: MAX_SOCKETS });
  const handle: http.RequestListener = (request, response) => {
    const { method = "GET", url = "" } = request;
    if (url === "/health/live" || url === "/health/ready") return answerHealth(response);
    const upstream = routeOf(method, url);
    if (!upstream) return answerError(response, 400, "malformed_request");
    const origin = new URL(options.upstreams[upstream]);
    const log = (line: string) => options.log(`${upstream}: ${line}`);
    if (!hasBody(request)) {
      const isSafe = method === "GET" || method === "HEAD";
      return forward(request, response, { origin, log, agent: isSafe ? kept : fresh });
    }
    void forwardWithBody(request, response, { origin, log, agent: fresh }, bodies);
  };
  const server = await listen(handle, options.host, options.port, options.drainTimeoutMs);
  return {
    url: server.url,
    async close() {
      await server.close();
      kept.destroy();
      fresh.destroy();
    },
  };
}

interface Target {
  origin: URL;
  agent: http.Agent;
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
    const release = () => bodies.release(body);
    if (response.closed) return release(); // the client has gone
    response.once("close", release);
    return forward(request, response, target, body);
  }
  // What comes of a refused body has no taker, and must be read for the client to read the answer.
  request.resume();
  if (body === "too_large") answerError(response, 413, "body_too_large");
  if (body === "no_room") answerError(response, 503, "too_many_bodies", { "Retry-After": "1" });
}

function forward(
  request: http.IncomingMessage,
  response: http.ServerResponse,
  target: Target,
  body?: Buffer,
): void {
  const onward = http.request({
    host: target.origin.hostname,
    port: target.origin.port,
    method: request.method,
    path: request.url,
    headers: onwardHeaders(request, body),
    agent: target.agent,
    timeout: UPSTREAM_TIMEOUT_MS,
  });
  onward.on("timeout", () => onward.destroy(Object.assign(new Error("timeout"), { code: "ETIMEDOUT" })));
  onward.on("response", (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage, forwardedHeaders(answer.rawHeaders));
    pipeline(answer, response, () => undefined); // either side's end ends the other
  });
  onward.on("error", (error: NodeJS.ErrnoException) => {
    if (response.headersSent || response.destroyed) return; // an answer cut short ends the pipeline by itself
    // The service closed a kept connection just as it was taken, which only a request that changes nothing uses.
    if (onward.reusedSocket && error.code === "ECONNRESET") return forward(request, response, target);
    target.log(`${request.method} failed: ${error.code ?? error.message}`);
    const refused = error.code === "ECONNREFUSED";
    answerError(response, refused ? 503 : 502, "upstream_unavailable", { "Retry-After": "1" });
  });
  response.on("close", () => {
    if (!response.writableFinished) onward.destroy();
  });
  onward.end(body);
}

/** A body has been read completely, so that its length is known however it came. */
function onwardHeaders(request: http.IncomingMessage, body: Buffer | undefined): string[] {
  const headers = forwardedHeaders(request.rawHeaders, ["x-forwarded-for"]);
  headers.push("X-Forwarded-For", request.socket.remoteAddress ?? "unknown");
  if (body && request.headers["content-length"] === undefined) {
    headers.push("Content-Length", String(body.length));
  }
  return headers;
}

function answerHealth(response: http.ServerResponse): void {
  response
    .writeHead(200, { "Content-Type": "application/json", "X-Content-Type-Options": "nosniff" })
    .end('{"ok":true}');
}

export type Upstream = "command" | "queryApi" | "audit";

/**
 * Which service a request belongs to: the portal's and the auditors' paths to their service whatever the method, so
 * that it can refuse the wrong ones; else the method decides, and one exact path. No spelling of another path (doubled
 * slashes, dots, percent codes) leads elsewhere, since nothing is decoded or normalised here.
 *
 * @param target the request target as it was sent
 * @returns undefined for a target that is not a path, such as another server's address or `*`
 */
export function routeOf(method: string, target: string): Upstream | undefined {
  if (!target.startsWith("/")) return undefined;
  const path = target.split("?", 1)[0] ?? "";
  if (path === "/.well-known/jwks.json") return "command";
  if (path.startsWith("/api/v1/")) return "queryApi";
  if (path === "/audit" || path.startsWith("/audit/")) return "audit";
  return method === "GET" || method === "HEAD" ? "queryApi" : "command";
}
