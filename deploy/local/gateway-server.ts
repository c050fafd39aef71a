/**
 * One origin in front of the services, as an ingress gives in production. On node:http alone: the request goes on with
 * its raw headers, so that case and repetitions survive, which the proxy libraries lose.
 */
import http from "node:http";
import { pipeline } from "node:stream";
import { answerError } from "../../shared/http/error-answer.ts";
import { type Listening, listen } from "../../shared/http/listen.ts";
import { forwardedHeaders } from "./gateway-headers.ts";
import { routeOf, type Upstream } from "./gateway-route.ts";
import { PatientSocket } from "./patient-socket.ts";

export interface GatewayOptions {
  host: string;
  port: number;
  /** Origin of each service. */
  upstreams: Record<Upstream, string>;
  /** Takes one line for each request that could not be passed on. */
  log: (line: string) => void;
  /** How long requests under way at a close may take to finish. Milliseconds. */
  drainWithin?: number;
}

/** A service that says nothing for this long counts as down. Milliseconds. */
const SILENCE_MS = 60_000;

/**
 * Starts the gateway, with the limits of the services behind it. GET /health/live and /health/ready are its own.
 *
 * @throws {StartError} where it cannot listen
 */
export async function startGateway(options: GatewayOptions): Promise<Listening> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 512 });
  agent.createConnection = (to) => new PatientSocket().connect(to as { host: string; port: number });
  const handle: http.RequestListener = (request, response) => {
    const { method = "GET", url = "" } = request;
    if (url === "/health/live" || url === "/health/ready") return answerHealth(response);
    const upstream = routeOf(method, url);
    if (!upstream) return answerError(response, 400, "malformed_request");
    const origin = new URL(options.upstreams[upstream]);
    forward(request, response, { origin, agent, log: (line) => options.log(`${upstream}: ${line}`) });
  };
  const server = await listen(handle, options.host, options.port, options.drainWithin);
  return {
    url: server.url,
    async close() {
      await server.close();
      agent.destroy();
    },
  };
}

interface Target {
  origin: URL;
  agent: http.Agent;
  log: (line: string) => void;
}

function forward(request: http.IncomingMessage, response: http.ServerResponse, target: Target): void {
  const chunked = request.headers["transfer-encoding"] !== undefined;
  const hasBody = chunked || Number(request.headers["content-length"]) > 0;
  const onward = http.request({
    host: target.origin.hostname,
    port: target.origin.port,
    method: request.method,
    path: request.url,
    headers: onwardHeaders(request, chunked),
    agent: target.agent,
    timeout: SILENCE_MS,
  });
  onward.on("timeout", () => onward.destroy(Object.assign(new Error("timeout"), { code: "ETIMEDOUT" })));
  onward.on("response", (answer) => {
    const headers = forwardedHeaders(answer.rawHeaders);
    // The service has given the request up: its rest must be neither taken for another nor answered once more.
    if (answer.statusCode === 408) headers.push("Connection", "close");
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage, headers);
    pipeline(answer, response, () => undefined); // either side's end ends the other
  });
  onward.on("error", (error: NodeJS.ErrnoException) => {
    if (response.headersSent || response.destroyed) return; // an answer cut short ends the pipeline by itself
    if (mayRepeat(request, onward, error, hasBody)) return forward(request, response, target);
    target.log(`${request.method} failed: ${error.code ?? error.message}`);
    const refused = error.code === "ECONNREFUSED";
    answerError(response, refused ? 503 : 502, "upstream_unavailable", { "Retry-After": "1" });
  });
  response.on("close", () => {
    if (!response.writableFinished) onward.destroy();
  });
  if (!hasBody) return void onward.end();
  request.pipe(onward);
  // What comes of a body after its answer has no taker, and must be read for the client to read the answer.
  onward.on("close", () => request.resume());
}

function onwardHeaders(request: http.IncomingMessage, chunked: boolean): string[] {
  const headers = forwardedHeaders(request.rawHeaders, ["x-forwarded-for"]);
  headers.push("X-Forwarded-For", request.socket.remoteAddress ?? "unknown");
  if (chunked) headers.push("Transfer-Encoding", "chunked");
  return headers;
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
