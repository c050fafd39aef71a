import http2 from "node:http2";
import { listenOnLoopback } from "./loopback.ts";
import { releaseLater } from "./resources.ts";

/**
 * Steps of a proxied call:
 *
 * - opened: the call has reached the proxy
 * - sent: the log has the whole request
 * - answered: the log's response has reached the proxy
 * - ending: only the end of the call is left to forward
 *
 * A BatchAppend call repeats the last three steps for each of its parts.
 */
export const CALL_STEPS = ["opened", "sent", "answered", "ending"] as const;

export type CallStep = (typeof CALL_STEPS)[number];

/** A gRPC call of a client to the log. */
export interface ProxiedCall {
  /** For example `/event_store.client.streams.Streams/BatchAppend`. */
  path: string;
  /** Resets only this call. @param errorCode HTTP/2 error code */
  reset(errorCode: number): void;
  /** Ends only this call with a gRPC status, even if a part of the response has been forwarded. */
  refuse(grpcStatus: number, trailers?: Record<string, string>): void;
  /** Closes the client's connection in the next turn of the event loop. */
  cut(): void;
}

/** An HTTP/2 proxy to an event log. Tests can let single calls fail. */
export interface GrpcProxy {
  url: string;
  /**
   * Called at each step of each call. The call continues when the returned promise resolves.
   *
   * @param request whole request, or the last part of a BatchAppend; empty at the step `opened`
   */
  onStep: (step: CallStep, call: ProxiedCall, request: Buffer) => unknown;
  close(): Promise<void>;
}

/**
 * @param url URL of the log, without TLS
 * @param host loopback address. If not 127.0.0.1, the proxy uses the log's port. A client that discovers the log
 *   through the proxy then connects to the proxy again
 */
export async function startGrpcProxy(url: string, host = "127.0.0.1"): Promise<GrpcProxy> {
  const logUrl = new URL(url);
  const server = http2.createServer();
  const logSessions = new Set<http2.ClientHttp2Session>();
  server.on("session", (clientSession) => {
    const logSession = http2.connect(`http://${logUrl.host}`);
    logSessions.add(logSession.on("close", () => logSessions.delete(logSession)));
    for (const session of [clientSession, logSession]) session.on("error", () => undefined);
    logSession.on("close", () => clientSession.destroy());
    clientSession.on("close", () => logSession.close());
    clientSession.on("stream", (stream, headers) => void forwardCall(proxy, logSession, stream, headers));
  });
  const listener = await listenOnLoopback(server, host === "127.0.0.1" ? 0 : Number(logUrl.port), host);
  const proxyUrl = new URL(url);
  proxyUrl.host = listener.host;
  const close = releaseLater(async () => {
    await listener.close();
    // A session would wait for the rest of responses that a test holds.
    for (const logSession of logSessions) logSession.destroy();
  });
  const proxy: GrpcProxy = { url: proxyUrl.href, onStep: () => undefined, close };
  return proxy;
}

async function forwardCall(
  proxy: GrpcProxy,
  logSession: http2.ClientHttp2Session,
  stream: http2.ServerHttp2Stream,
  headers: http2.IncomingHttpHeaders,
): Promise<void> {
  const path = headers[":path"] ?? "";
  stream.on("error", () => undefined);
  let request: Buffer = Buffer.alloc(0);
  let trailers: http2.IncomingHttpHeaders = {};
  const call: ProxiedCall = {
    path,
    reset: (errorCode) => stream.close(errorCode),
    refuse: (grpcStatus, exceptionTrailers) => {
      if (stream.destroyed || stream.writableEnded) return;
      trailers = { "grpc-status": String(grpcStatus), ...exceptionTrailers };
      if (stream.headersSent) stream.end();
      else stream.respond({ "content-type": "application/grpc", ...trailers }, { endStream: true });
    },
    // Node.js 20 can crash if a session is destroyed while it processes frames.
    cut: () => void setImmediate(() => stream.session?.destroy()),
  };
  const isOpen = () => !stream.closed && !stream.destroyed && !stream.writableEnded;
  /** @returns false if the call has ended */
  const reach = async (step: CallStep) => {
    await proxy.onStep(step, call, request);
    return isOpen();
  };
  if (!(await reach("opened")) || logSession.destroyed) return;
  const { connection: _, ...forwardedHeaders } = headers;
  const logStream = logSession.request(forwardedHeaders).on("error", () => undefined);
  const isBatch = path.endsWith("/BatchAppend");
  stream.pipe(logStream);
  stream.on("data", (part: Buffer) => {
    request = isBatch ? part : Buffer.concat([request, part]);
    if (isBatch) void reach("sent");
  });
  if (!isBatch) stream.on("end", () => void reach("sent"));
  // The log executes an append even if its call has ended, as if the fault were behind the log.
  stream.on("close", () => (/\/(Batch)?Append$/.test(path) ? logStream.resume().end() : logStream.close()));
  const forwardParts = async () => {
    for await (const part of logStream) {
      if (!(await reach("answered"))) continue;
      stream.write(part);
      await reach("ending");
    }
    if (isOpen()) stream.end();
  };
  logStream.on("trailers", (receivedTrailers) => {
    if (isOpen()) trailers = receivedTrailers;
  });
  logStream.on("response", async (responseHeaders, flags) => {
    if (!(isBatch ? isOpen() : await reach("answered"))) return;
    const isWhole = (flags & http2.constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    stream.respond(responseHeaders, isWhole ? { endStream: true } : { waitForTrailers: true });
    if (isBatch) await forwardParts().catch(() => stream.destroy());
    else if (!isWhole) logStream.pipe(stream);
  });
  stream.on("wantTrailers", async () => {
    if (!isBatch) await proxy.onStep("ending", call, request);
    if (!stream.closed && !stream.destroyed) stream.sendTrailers(trailers);
  });
}
