import { once } from "node:events";
import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import type Koa from "koa";
import { pause } from "../runtime/backoff.ts";
import type { Config } from "../runtime/config.ts";
import { type RunningService, StartError } from "../runtime/run-service.ts";
import { settlesWithin } from "../runtime/timeout.ts";
import { createErrorResponse, sendError } from "./api-error.ts";
import { listHeaderValues } from "./request.ts";

export interface HttpServer {
  url: string;
  /** Makes `/health/ready` return 503, and lets every response close its connection. All requests are still handled. */
  startDrain(): void;
  /** Starts to drain, refuses new connections, waits for requests in progress, then closes the remaining connections. */
  close(): Promise<void>;
}

/** Time limits for slow clients, after which the server returns 408. Milliseconds. */
export interface ClientTimeouts {
  headersTimeoutMs: number;
  requestTimeoutMs: number;
}

const DEFAULT_CLIENT_TIMEOUTS: ClientTimeouts = { headersTimeoutMs: 10_000, requestTimeoutMs: 20_000 };

/**
 * Time after which the server closes an idle connection. A proxy that reuses a connection while the server closes it
 * loses the request, so this time must be longer than the idle timeout of proxies. Milliseconds.
 */
export const KEEP_ALIVE_TIMEOUT_MS = 180_000;

/** Interval between Node's checks for slow clients. A slow client is detected up to one interval late. */
const CHECK_INTERVAL_MS = 1_000;

/** Time limit for closing the connections of a service to its servers, which may not respond. */
const CLOSE_TIMEOUT_MS = 2_000;

/**
 * Starts an HTTP server on an address.
 *
 * @param drainTimeoutMs time limit in milliseconds for requests that are in progress when the server closes
 * @throws {StartError} if the port is in use or not permitted
 */
export async function listen(
  handler: RequestListener,
  host: string,
  port: number,
  drainTimeoutMs = 5_000,
  timeouts = DEFAULT_CLIENT_TIMEOUTS,
): Promise<HttpServer> {
  const checkIntervalMs = Math.min(CHECK_INTERVAL_MS, timeouts.headersTimeoutMs / 2, timeouts.requestTimeoutMs / 2);
  const { handle, startDrain } = createDrainableHandler(handler);
  const server = createServer(
    {
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
      headersTimeout: timeouts.headersTimeoutMs - checkIntervalMs,
      requestTimeout: timeouts.requestTimeoutMs - checkIntervalMs,
      connectionsCheckingInterval: checkIntervalMs,
      maxHeaderSize: 32_768,
      requireHostHeader: false,
    },
    handleInTurn(requireHost(handle)),
  );
  respondToClientErrors(server);
  server.listen(port, host);
  try {
    await once(server, "listening");
  } catch (error) {
    throw new StartError(`cannot listen on ${host}:${port}; check HOST and PORT`, { cause: error });
  }
  const { port: actualPort } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${actualPort}`,
    startDrain,
    async close() {
      startDrain();
      // Closing the server resets connections and requests that have arrived but have not been read. Between the two
      // calls, the event loop reads them.
      await nextTurn();
      await nextTurn();
      const closePromise = once(server, "close");
      server.close();
      const drainTimer = setTimeout(() => server.closeAllConnections(), drainTimeoutMs);
      await closePromise;
      clearTimeout(drainTimer);
    },
  };
}

/**
 * Serves an application on the configured address.
 *
 * @param closeConnections closes the other connections of the service. Called after the HTTP server was closed
 * @throws {StartError} if the port is in use or not permitted
 */
export async function serve<State>(
  app: Koa<State>,
  { HOST, PORT, DRAIN_DELAY_MS }: Config<"HOST" | "PORT" | "DRAIN_DELAY_MS">,
  closeConnections: () => Promise<unknown>,
): Promise<RunningService> {
  const server = await listen(app.callback(), HOST, PORT);
  return {
    url: server.url,
    async drain(signal) {
      server.startDrain();
      await pause(DRAIN_DELAY_MS, signal);
    },
    async stop() {
      await server.close();
      await settlesWithin(closeConnections(), CLOSE_TIMEOUT_MS);
    },
  };
}

/**
 * Handles the requests of a connection one at a time. HTTP/1.1 responses are sent in order anyway, and a client could
 * otherwise start thousands of requests with one packet. While a request waits, the connection is not read.
 */
function handleInTurn(handler: RequestListener): RequestListener {
  const waitingRequests = new WeakMap<Socket, (() => void)[]>();
  return (request, response) => {
    const { socket } = request;
    const handle = () => {
      response.once("close", () => {
        // If the connection closes, further requests could not be answered. They wait until then.
        if (response.shouldKeepAlive && !socket.destroyed) {
          const handleNext = waitingRequests.get(socket)?.shift();
          // Other connections get their turn, although a response may have needed no input or output.
          if (handleNext) return void setImmediate(handleNext);
          waitingRequests.delete(socket);
        }
        if (socket.isPaused()) socket.resume();
      });
      handler(request, response);
    };
    const otherRequests = waitingRequests.get(socket);
    if (!otherRequests) {
      waitingRequests.set(socket, []);
      return handle();
    }
    otherRequests.push(handle);
    socket.pause();
  };
}

const STOPPING_BODY = JSON.stringify({ ok: false, parts: { process: "stopping" } });

/**
 * Wraps the request handler of a server, so that the server can drain before it stops. While it drains, `/health/ready`
 * returns 503, and every response closes its connection. Load balancers and clients with open connections therefore move
 * to other processes. All requests are still handled.
 */
function createDrainableHandler(handler: RequestListener) {
  const openResponses = new Set<ServerResponse>();
  let isDraining = false;
  const handle: RequestListener = (request, response) => {
    openResponses.add(response);
    response.on("close", () => openResponses.delete(response));
    if (!isDraining) return handler(request, response);
    response.shouldKeepAlive = false;
    if (request.url?.split("?")[0] === "/health/ready") sendStopping(response);
    else handler(request, response);
  };
  const startDrain = () => {
    isDraining = true;
    for (const response of openResponses) closeAfter(response);
  };
  return { handle, startDrain };
}

/** Lets a response close its connection, even if its headers have already been sent. */
function closeAfter(response: ServerResponse): void {
  response.shouldKeepAlive = false;
  const { socket } = response.req;
  if (response.headersSent) response.once("finish", () => socket.end());
}

function sendStopping(response: ServerResponse): void {
  response
    .writeHead(503, {
      "Content-Type": "application/json; charset=utf-8",
      "Cache-Control": "no-store",
      "X-Content-Type-Options": "nosniff",
    })
    .end(STOPPING_BODY);
}

type Refusal = [status: number, reason: string, code: string];

const REFUSALS_BY_ERROR: Record<string, Refusal> = {
  HPE_HEADER_OVERFLOW: [431, "Request Header Fields Too Large", "headers_too_large"],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, "Content Too Large", "body_too_large"],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "Request Timeout", "request_timeout"],
};
const MALFORMED_REQUEST: Refusal = [400, "Bad Request", "malformed_request"];

/** Time that a client has to close the connection after a refusal. */
const LINGER_MS = 1_000;

/** Sends the standard error body for a request that the HTTP parser refuses, and closes the connection. */
function respondToClientErrors(server: Server): void {
  const latestResponses = new WeakMap<Duplex, ServerResponse>();
  server.prependListener("request", (request, response) => latestResponses.set(request.socket, response));
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Duplex) => {
    const refusal = REFUSALS_BY_ERROR[error.code ?? ""] ?? MALFORMED_REQUEST;
    const response = latestResponses.get(socket);
    if (error.code === "ECONNRESET" || !socket.writable) socket.destroy();
    else if (!response || response.writableFinished) sendRefusal(socket, refusal);
    // The response to the connection's earlier request must be sent before the error response.
    else if (response.req.complete) response.once("finish", () => sendRefusal(socket, refusal));
    else if (response.headersSent) socket.destroy();
    else sendRefusal(socket, refusal);
  });
  // Node removes its own error listener from the socket of a CONNECT request. Without another listener, a client that
  // resets the connection would end the process.
  server.on("connection", (socket) => socket.on("error", () => undefined));
  // Without this listener, Node closes the connection of a CONNECT request without a response.
  server.on("connect", (_request, socket) => server.emit("clientError", new Error("The method is CONNECT."), socket));
  // The server ignores an unknown Expect header instead of returning 417.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response));
}

/**
 * Refuses a request that does not have exactly one Host header (RFC 9112, section 3.2). HTTP/1.0 needs no Host header.
 * Node's own check returns no body. After a chunked HTTP/1.0 request, closes the connection, because its framing is
 * faulty (section 6.1).
 */
function requireHost(handler: RequestListener): RequestListener {
  return (request, response) => {
    const isOld = request.httpVersion === "1.0";
    if (isOld && request.headers["transfer-encoding"] !== undefined) response.shouldKeepAlive = false;
    const hostHeaderCount = listHeaderValues(request, "host").length;
    if (hostHeaderCount === 1 || (hostHeaderCount === 0 && isOld)) return handler(request, response);
    sendError(response, 400, "malformed_request", { Connection: "close" });
  };
}

/**
 * Sends the standard error body and closes the connection, even if the client keeps its side open. Node itself would
 * never close the connection after a timeout or a CONNECT request.
 */
function sendRefusal(socket: Duplex, [status, reason, code]: Refusal): void {
  const { headers, body } = createErrorResponse(code);
  const lines = Object.entries({ ...headers, Connection: "close" }).map(([name, value]) => `${name}: ${value}`);
  socket.end(`${[`HTTP/1.1 ${status} ${reason}`, ...lines].join("\r\n")}\r\n\r\n${body}`);
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}
