/** A TCP server on loopback. A test writes its responses byte by byte, so they need not be valid HTTP. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";

export interface RawReceiver {
  url: string;
  port: number;
  /** Number of received requests. */
  requestCount: number;
  /** Number of accepted connections. */
  connectionCount: number;
  close(): Promise<void>;
}

/**
 * @param onRequest called for each request with the request's number on its connection, starting at 1
 * @param onConnection called for each connection, before a request arrives
 */
export async function startRawReceiver(
  onRequest: (socket: Socket, requestNumber: number) => void,
  onConnection?: (socket: Socket) => void,
): Promise<RawReceiver> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    receiver.connectionCount += 1;
    sockets.add(socket);
    let requestCount = 0;
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    // The tests send only small requests, each of which arrives as one chunk.
    socket.on("data", () => {
      receiver.requestCount += 1;
      requestCount += 1;
      onRequest(socket, requestCount);
    });
    onConnection?.(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const receiver: RawReceiver = {
    url: `http://127.0.0.1:${port}`,
    port,
    requestCount: 0,
    connectionCount: 0,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
  return receiver;
}
