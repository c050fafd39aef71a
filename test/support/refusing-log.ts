import http2 from "node:http2";
import { listenOnLoopback } from "./loopback.ts";

/**
 * Starts a server that refuses all requests with a gRPC status. It replaces an event log with access control, which the
 * embedded log does not have.
 *
 * @param grpcStatus 7 if the user lacks a right, 16 if the credentials are wrong
 */
export async function startRefusingLog(grpcStatus: 7 | 16): Promise<{ url: string; stop(): void }> {
  const server = http2.createServer();
  const { host, close } = await listenOnLoopback(server);
  server.on("stream", (stream) => {
    stream.respond({ "content-type": "application/grpc", "grpc-status": grpcStatus }, { endStream: true });
  });
  return { url: `esdb://${host}?tls=false`, stop: close };
}
