import type { RequestListener, Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { createErrorResponse, sendError } from "./error-response.ts";
import { listHeaderValues } from "./header-values.ts";

type Refusal = [status: number, reason: string, code: string];

/** Responses to errors of Node's HTTP parser, by error code. */
const REFUSALS_BY_ERROR: Record<string, Refusal> = {
  HPE_HEADER_OVERFLOW: [431, "Request Header Fields Too Large", "headers_too_large"],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, "Content Too Large", "body_too_large"],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "Request Timeout", "request_timeout"],
};
const MALFORMED_REQUEST: Refusal = [400, "Bad Request", "malformed_request"];

/** Sends the standard error body for a request that the HTTP parser refuses, and closes the connection. */
export function respondToClientErrors(server: Server): void {
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
  // Without this listener, Node closes the connection of a CONNECT request without a response.
  server.on("connect", (_request, socket) => sendRefusal(socket, MALFORMED_REQUEST));
  // The server ignores an unknown Expect header instead of returning 417.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response));
}

/**
 * Refuses a request that does not have exactly one Host header (RFC 9112, section 3.2). Node's own check returns no
 * body.
 */
export function requireHost(handler: RequestListener): RequestListener {
  return (request, response) => {
    const hostHeaderCount = listHeaderValues(request, "host").length;
    if (hostHeaderCount === 1 || (hostHeaderCount === 0 && request.httpVersion === "1.0"))
      return handler(request, response);
    sendError(response, 400, "malformed_request", { Connection: "close" });
  };
}

function sendRefusal(socket: Duplex, [status, reason, code]: Refusal): void {
  const { headers, body } = createErrorResponse(code);
  const lines = Object.entries({ ...headers, Connection: "close" }).map(([name, value]) => `${name}: ${value}`);
  socket.end(`${[`HTTP/1.1 ${status} ${reason}`, ...lines].join("\r\n")}\r\n\r\n${body}`);
}
