import { randomUUID } from "node:crypto";
import type { Server } from "node:http";
import type { Duplex } from "node:stream";

/** What Node's parser says of a request that never becomes one, and what the caller is told. */
const ANSWERS: Record<string, [number, string, string]> = {
  HPE_HEADER_OVERFLOW: [431, "Request Header Fields Too Large", "headers_too_large"],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, "Content Too Large", "body_too_large"],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "Request Timeout", "request_timeout"],
};
const MALFORMED: [number, string, string] = [400, "Bad Request", "malformed_request"];

/** Answers what the HTTP parser refuses, in the error body of all other answers, and hangs up. */
export function answerClientErrors(server: Server): void {
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Duplex) => {
    if (error.code === "ECONNRESET" || !socket.writable) {
      socket.destroy();
      return;
    }
    const [status, reason, code] = ANSWERS[error.code ?? ""] ?? MALFORMED;
    const correlationId = randomUUID();
    const body = JSON.stringify({ ok: false, error: code, correlationId });
    const head = [
      `HTTP/1.1 ${status} ${reason}`,
      "Content-Type: application/json; charset=utf-8",
      `Content-Length: ${Buffer.byteLength(body)}`,
      "Cache-Control: no-store",
      `X-Correlation-ID: ${correlationId}`,
      "Connection: close",
    ];
    socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
  });
  // An Expect that we do not know is no reason not to answer.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response));
}
