import type { RequestListener, Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { answerError, errorAnswer } from "./error-answer.ts";

type Refusal = [status: number, reason: string, code: string];

/** What Node's parser says of a request that never becomes one, and what the caller is told. */
const ANSWERS: Record<string, Refusal> = {
  HPE_HEADER_OVERFLOW: [431, "Request Header Fields Too Large", "headers_too_large"],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, "Content Too Large", "body_too_large"],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "Request Timeout", "request_timeout"],
};
const MALFORMED: Refusal = [400, "Bad Request", "malformed_request"];

/** Answers what the HTTP parser refuses, in the error body of all other answers, and hangs up. */
export function answerClientErrors(server: Server): void {
  const latest = new WeakMap<Duplex, ServerResponse>();
  server.prependListener("request", (request, response) => latest.set(request.socket, response));
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Duplex) => {
    const refusal = ANSWERS[error.code ?? ""] ?? MALFORMED;
    const response = latest.get(socket);
    if (error.code === "ECONNRESET" || !socket.writable) socket.destroy();
    else if (!response || response.writableFinished) refuse(socket, refusal);
    // What is wrong came after a request that is being answered: this must not pass for its answer.
    else if (response.req.complete) response.once("finish", () => refuse(socket, refusal));
    else if (response.headersSent) socket.destroy();
    else refuse(socket, refusal);
  });
  // Without a listener Node hangs up on CONNECT without a word.
  server.on("connect", (_request, socket) => refuse(socket, MALFORMED));
  // An Expect that we do not know is no reason not to answer.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response));
}

/** Refuses a request without a Host, or with several (RFC 9112, 3.2). Node would answer it with an empty body. */
export function requireHost(handler: RequestListener): RequestListener {
  return (request, response) => {
    const hosts = request.headersDistinct.host?.length ?? 0;
    if (hosts === 1 || (hosts === 0 && request.httpVersion === "1.0")) return handler(request, response);
    answerError(response, 400, "malformed_request", { Connection: "close" });
  };
}

function refuse(socket: Duplex, [status, reason, code]: Refusal): void {
  const { headers, body } = errorAnswer(code);
  const lines = Object.entries({ ...headers, Connection: "close" }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  socket.end(`${[`HTTP/1.1 ${status} ${reason}`, ...lines].join("\r\n")}\r\n\r\n${body}`);
}
