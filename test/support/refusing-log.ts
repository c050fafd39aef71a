import { once } from "node:events";
import http2 from "node:http2";
import type { AddressInfo } from "node:net";

/**
 * Starts a server that refuses all requests with a gRPC status. It replaces an event log with access control, which the
 * embedded log does not have.
 *
 * @param grpcStatus 7 if the user lacks a right, 16 if the credentials are wrong
 */
export async function startRefusingLog(grpcStatus: 7 | 16): Promise<{ url: string; stop(): void }> {
  const server = http2.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const sessions = new Set<http2.ServerHttp2Session>();
  server.on("session", (session) => sessions.add(session));
  server.on("stream", (stream) => {
    stream.respond({ "content-type": "application/grpc", "grpc-status": grpcStatus }, { endStream: true });
  });
  return {
    url: `esdb://127.0.0.1:${(server.address() as AddressInfo).port}?tls=false`,
    stop() {
      // A client keeps its connection open.
      for (const session of sessions) session.destroy();
      server.close();
    },
  };
}
