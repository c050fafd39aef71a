import { createServer, type Socket } from "node:net";
import { listenOnLoopback } from "./loopback.ts";

export interface RawReceiver {
  url: string;
  port: number;
  requestCount: number;
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
  const server = createServer((socket) => {
    receiver.connectionCount += 1;
    let requestCount = 0;
    // The tests send only small requests, each of which arrives as one chunk.
    socket.on("data", () => {
      receiver.requestCount += 1;
      requestCount += 1;
      onRequest(socket, requestCount);
    });
    onConnection?.(socket);
  });
  const { port, host, close } = await listenOnLoopback(server);
  const receiver: RawReceiver = { url: `http://${host}`, port, requestCount: 0, connectionCount: 0, close };
  return receiver;
}
