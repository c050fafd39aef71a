/**
 * One origin in front of the services, as an ingress gives in production. On node:http alone: the request goes on with
 * its raw headers, so that case and repetitions survive, which the proxy libraries lose.
 */
import { randomUUID } from "node:crypto";
import http from "node:http";
import { pipeline } from "node:stream";
import { forwardedHeaders } from "./gateway-headers.ts";
import { routeOf, type Upstream } from "./gateway-route.ts";

export interface GatewayOptions {
  /** Origin of each service. */
  upstreams: Record<Upstream, string>;
  /** Takes one line for each request that could not be passed on. */
  log: (line: string) => void;
}

/** A service that says nothing for this long counts as down. Milliseconds. */
const SILENCE_MS = 60_000;

/** The gateway, not listening yet. GET /health/live and /health/ready are its own. */
export function createGateway(options: GatewayOptions): http.Server {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 512 });
  const server = http.createServer((request, response) => {
    const { method = "GET", url = "" } = request;
    if (url === "/health/live" || url === "/health/ready") return answerHealth(response);
    const upstream = routeOf(method, url);
    if (!upstream) return answerError(response, 400, "invalid_request_target");
    const origin = new URL(options.upstreams[upstream]);
    forward(request, response, { origin, agent, log: (line) => options.log(`${upstream}: ${line}`) });
  });
  server.on("close", () => agent.destroy());
  return server;
}

interface Target {
  origin: URL;
  agent: http.Agent;
  log: (line: string) => void;
}

function forward(request: http.IncomingMessage, response: http.ServerResponse, target: Target): void {
  const headers = forwardedHeaders(request.rawHeaders, ["x-forwarded-for"]);
  headers.push("X-Forwarded-For", request.socket.remoteAddress ?? "unknown");
  const hasBody =
    request.headers["transfer-encoding"] !== undefined || Number(request.headers["content-length"]) > 0;
  if (request.headers["transfer-encoding"] !== undefined) headers.push("Transfer-Encoding", "chunked");
  const onward = http.request({
    host: target.origin.hostname,
    port: target.origin.port,
    method: request.method,
    path: request.url,
    headers,
    agent: target.agent,
    timeout: SILENCE_MS,
  });
  onward.on("timeout", () => onward.destroy(Object.assign(new Error("timeout"), { code: "ETIMEDOUT" })));
  onward.on("response", (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage, forwardedHeaders(answer.rawHeaders));
    pipeline(answer, response, () => undefined); // either side's end ends the other
  });
  onward.on("error", (error: NodeJS.ErrnoException) => {
    if (response.headersSent || response.destroyed) return; // an answer cut short ends the pipeline by itself
    if (mayRepeat(request, onward, error, hasBody)) return forward(request, response, target);
    target.log(`${request.method} failed: ${error.code ?? error.message}`);
    const refused = error.code === "ECONNREFUSED";
    answerError(response, refused ? 503 : 502, "upstream_unavailable");
    request.resume();
  });
  response.on("close", () => {
    if (!response.writableFinished) onward.destroy();
  });
  if (hasBody) request.pipe(onward);
  else onward.end();
}

/** A kept connection may have been closed just as it was taken: a request that changes nothing is sent anew. */
function mayRepeat(
  request: http.IncomingMessage,
  onward: http.ClientRequest,
  error: NodeJS.ErrnoException,
  hasBody: boolean,
): boolean {
  const safe = request.method === "GET" || request.method === "HEAD";
  return safe && !hasBody && onward.reusedSocket && error.code === "ECONNRESET";
}

function answerHealth(response: http.ServerResponse): void {
  response.writeHead(200, { "Content-Type": "application/json" }).end('{"ok":true}');
}

function answerError(response: http.ServerResponse, status: number, error: string): void {
  const correlationId = randomUUID();
  response.writeHead(status, {
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
    "X-Correlation-ID": correlationId,
    ...(status >= 500 ? { "Retry-After": "1" } : {}),
  });
  response.end(JSON.stringify({ ok: false, error, correlationId }));
}
