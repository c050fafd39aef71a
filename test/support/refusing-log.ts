import http2 from "node:http2";
import { listenOnLoopback } from "./loopback.ts";

/**
 * Starts a server that refuses all gRPC requests, like an event log with access control. The embedded log has none.
 *
 * @param grpcStatus 7 for a missing right, 16 for wrong credentials
 */
export async function startRefusingLog(grpcStatus: 7 | 16): Promise<{ url: string; stop(): void }> {
  const server = http2.createServer();
  const { host, close } = await listenOnLoopback(server);
  server.on("stream", (stream) => {
    stream.respond({ "content-type": "application/grpc", "grpc-status": grpcStatus }, { endStream: true });
  });
  return { url: `esdb://${host}?tls=false`, stop: close };
}
